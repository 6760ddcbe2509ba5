#include "io/parse_json.h"

#include "attend/input_error.h"
#include "attend/io/check_json.h"
#include "attend/io/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace attend {

namespace {

using Json = nlohmann::json;

/// Maximum nesting depth. It limits the recursion of code that reads the parsed values.
constexpr std::size_t kDepth = 100;

/// Checks the events of nlohmann::json::sax_parse. nlohmann::json::parse with a callback would do
/// so in one pass, but takes quadratic time for an object with many members.
class Checker : public nlohmann::json_sax<Json> {
 public:
  explicit Checker(std::string_view text) : text_(text) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override { return start(); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return start(); }
  bool end_array() override { return end(); }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second)
      throw InputError(fmt::format("duplicate key '{}'", printable(key)));
    return true;
  }

  /// `end`: number of bytes up to the end of the token that is an error.
  bool parse_error(std::size_t end, const std::string&, const Json::exception&) override {
    const auto at = std::min(end == 0 ? 0 : end - 1, text_.size());
    const auto last = text_.substr(at, 1);
    throw InputError(
        fmt::format("expected JSON, found {} at offset {} ({})",
                    last.empty() ? "the end of the text" : fmt::format("'{}'", printable(last)), at,
                    line_and_column(text_, at)));
  }

 private:
  bool start() {
    if (keys_.size() == kDepth)
      throw InputError(fmt::format("JSON is nested deeper than {} levels", kDepth));
    keys_.emplace_back();
    return true;
  }
  bool end() {
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  std::vector<std::set<std::string>> keys_;  // of each open object; empty for an array
};

}  // namespace

std::string message_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const auto end = text.find("] ");
  return std::string(text.starts_with('[') && end != text.npos ? text.substr(end + 2) : text);
}

void check_json(std::string_view text) {
  check_utf8(text);
  Checker checker(text);
  Json::sax_parse(text, &checker);
}

Json parse_json(std::string_view text) {
  check_json(text);
  return Json::parse(text);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  check_json(text);
  return nlohmann::ordered_json::parse(text);
}

}  // namespace attend
