#include "tokenizers/tokenizer_json.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attend::tokenizers {
namespace {

using Json = nlohmann::json;

/// Maximum nesting depth, which limits the recursion of code that reads the parsed values.
constexpr std::size_t kMaxDepth = 100;

/// Maximum number of values outside of the vocabulary and the merges. Most are those of the added
/// tokens, seven each.
constexpr std::size_t kMaxValues = 1'000'000;

/// Returns the number that the JSON parser of the reference reads: its digits as an integer, then
/// multiplied with or divided by a power of ten. The result may differ from the nearest double in
/// the last bit, which decides between tokenizations with equal sums of scores.
double score_of(std::string_view text) {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool is_fraction = false;
  bool is_full = false;  // another digit would not fit into `digits`
  std::size_t i = text.starts_with('-') ? 1 : 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      is_fraction = true;
      is_full = is_full && exponent > 0;
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[i] - '0');
    is_full = is_full || digits > (UINT64_MAX - digit) / 10;
    if (!is_full) {
      digits = digits * 10 + digit;
      exponent -= is_fraction;
    } else {
      exponent += !is_fraction;
    }
  }
  if (i < text.size()) {
    const bool is_negative = text[++i] == '-';
    if (text[i] == '-' || text[i] == '+') ++i;
    int64_t value = 0;
    for (; i < text.size() && value < 100'000; ++i) value = value * 10 + (text[i] - '0');
    exponent += is_negative ? -value : value;
  }
  constexpr int kMaxPower = 308;
  auto result = static_cast<double>(digits);
  for (; exponent < -kMaxPower && result != 0; exponent += kMaxPower) result /= 1e308;
  const auto power =
      std::stod(fmt::format("1e{}", std::min<int64_t>(std::abs(exponent), kMaxPower)));
  result = exponent < 0 ? result / power : result * power;
  return text.starts_with('-') ? -result : result;
}

/// Builds the values of `root`, and adds the tokens and merges to their tables instead.
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, TokenizerJson& result) : text_(text), result_(result) {}

  bool null() override { return add("null", nullptr); }
  bool boolean(bool value) override { return add(value ? "true" : "false", value); }
  bool number_integer(number_integer_t value) override { return add_number(value); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return add_number(part_ == Part::scores ? score_of(text) : value);
  }
  bool string(string_t& value) override {
    switch (part_) {
      case Part::scores:
        if (depth_ != 1 || has_token_) throw_unexpected("a string");
        token_ = std::move(value);
        has_token_ = true;
        return true;
      case Part::merges:
        return add_merge(value);
      case Part::ids:
        throw_unexpected("a string");
      case Part::root:
        break;
    }
    return add_value(Json(std::move(value)));
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    if (part_ != Part::root) throw_unexpected("an object");
    if (starts("vocab")) {
      part_ = Part::ids;
      result_.vocab = TokenizerJson::Vocab::ids;
      return true;
    }
    return open(Json::object());
  }
  bool end_object() override {
    if (part_ == Part::ids) {
      part_ = Part::root;
      return true;
    }
    return close();
  }
  bool start_array(std::size_t) override {
    if (part_ == Part::scores || part_ == Part::merges) {
      if (++depth_ > 1) throw_unexpected("an array in an array");
      has_token_ = false;
      parts_ = 0;
      return true;
    }
    if (part_ == Part::ids) throw_unexpected("an array");
    if (starts("vocab")) {
      part_ = Part::scores;
      result_.vocab = TokenizerJson::Vocab::scores;
      return true;
    }
    if (starts("merges")) {
      part_ = Part::merges;
      result_.has_merges = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (part_ == Part::root) return close();
    if (depth_ == 0) {
      part_ = Part::root;
      return true;
    }
    --depth_;
    if (part_ == Part::scores && result_.scores.size() != result_.tokens.size()) {
      throw_unexpected("a token without a score");
    }
    if (part_ == Part::scores && !has_score_) throw_unexpected("an array without a token");
    if (part_ == Part::merges && parts_ != 2) {
      throw_unexpected(fmt::format("an array of {} strings", parts_));
    }
    has_score_ = false;
    return true;
  }
  bool key(string_t& key) override {
    if (part_ == Part::ids) {
      token_ = std::move(key);
      return true;
    }
    auto& object = *open_.back();
    if (object.contains(key) || (is_model() && is_duplicate(key))) {
      throw InputError(fmt::format("duplicate key '{}'", printable(key)));
    }
    key_ = std::move(key);
    return true;
  }

  /// `end`: number of bytes up to the end of the token that is an error.
  bool parse_error(std::size_t end, const std::string&, const Json::exception&) override {
    const auto at = std::min(end == 0 ? 0 : end - 1, text_.size());
    const auto last = text_.substr(at, 1);
    // The text before the error may be invalid UTF-8 only in its last characters.
    throw InputError(
        fmt::format("expected JSON, found {} at offset {} (line {})",
                    last.empty() ? "the end of the text" : fmt::format("'{}'", printable(last)), at,
                    1 + std::ranges::count(text_.substr(0, at), '\n')));
  }

 private:
  enum class Part { root, ids, scores, merges };

  bool is_model() const { return open_.size() == 2 && open_keys_.back() == "model"; }
  bool is_duplicate(std::string_view key) const {
    return (key == "vocab" && result_.vocab != TokenizerJson::Vocab::missing) ||
           (key == "merges" && result_.has_merges);
  }
  /// True at the start of the value of this key of the model.
  bool starts(std::string_view key) const { return is_model() && key_ == key; }

  bool open(Json value) {
    if (open_.size() == kMaxDepth) {
      throw InputError(fmt::format("JSON is nested deeper than {} levels", kMaxDepth));
    }
    const auto key = key_;
    open_.push_back(&insert(std::move(value)));
    open_keys_.push_back(key);
    key_.clear();
    return true;
  }
  bool close() {
    open_.pop_back();
    open_keys_.pop_back();
    return true;
  }
  Json& insert(Json value) {
    // Each value needs several times the memory of its text.
    if (++values_ > kMaxValues) {
      throw InputError(fmt::format(
          "the keys other than `model.vocab` and `model.merges` have more than {} values",
          kMaxValues));
    }
    if (open_.empty()) return result_.root = std::move(value);
    auto& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add_value(Json value) {
    if (starts("vocab") || (starts("merges") && !value.is_null())) {
      throw InputError(fmt::format("`model.{}`: found {}, expected an {}", key_, value.type_name(),
                                   key_ == "vocab" ? "object or array" : "array"));
    }
    insert(std::move(value));
    return true;
  }

  template <typename Value>
  bool add(const char* name, Value value) {
    if (part_ != Part::root) throw_unexpected(name);
    return add_value(Json(value));
  }
  template <typename Number>
  bool add_number(Number number) {
    if (part_ == Part::ids) {
      // A number that is too large for an id, or has a fraction.
      if (std::is_floating_point_v<Number> || number < Number{0} ||
          number > static_cast<Number>(TokenTable::kMaxId)) {
        throw InputError(
            fmt::format("`model.vocab`: the id of the token '{}' is {}, expected an "
                        "integer from 0 to {}",
                        printable(token_), number, TokenTable::kMaxId));
      }
      result_.tokens.add(token_, static_cast<int64_t>(number));
      return true;
    }
    if (part_ == Part::scores) {
      if (depth_ != 1 || !has_token_ || has_score_) throw_unexpected("a number");
      has_score_ = true;
      result_.tokens.add(token_, static_cast<int64_t>(result_.scores.size()));
      result_.scores.push_back(static_cast<double>(number));
      return true;
    }
    if (part_ == Part::merges) throw_unexpected("a number");
    return add_value(Json(number));
  }

  void append_merge(std::string_view first, std::string_view second) {
    auto& texts = result_.merge_texts;
    texts += first;
    const auto middle = static_cast<uint32_t>(texts.size());
    texts += second;
    result_.merge_ends.emplace_back(middle, static_cast<uint32_t>(texts.size()));
  }
  /// Merges are strings such as "a b", or arrays of two strings.
  bool add_merge(std::string& value) {
    if (depth_ == 1) {
      if (++parts_ == 1) {
        token_ = std::move(value);
      } else if (parts_ == 2) {
        append_merge(token_, value);
      }
      return true;
    }
    if (value.starts_with("#version")) return true;
    const auto blank = value.find(' ');
    if (blank == value.npos || value.find(' ', blank + 1) != value.npos) {
      throw_unexpected(fmt::format("'{}'", printable(value)));
    }
    append_merge(std::string_view(value).substr(0, blank),
                 std::string_view(value).substr(blank + 1));
    return true;
  }

  [[noreturn]] void throw_unexpected(std::string_view found) const {
    if (part_ == Part::merges) {
      throw InputError(
          fmt::format("`model.merges[{}]`: found {}, expected two tokens: a string with one blank, "
                      "or an array of two strings",
                      result_.merge_ends.size(), found));
    }
    if (part_ == Part::ids) {
      throw InputError(
          fmt::format("`model.vocab`: the id of the token '{}' is {}, expected an integer",
                      printable(token_), found));
    }
    throw InputError(
        fmt::format("`model.vocab[{}]`: found {}, expected an array of a token and its "
                    "score",
                    result_.scores.size(), found));
  }

  std::string_view text_;
  TokenizerJson& result_;
  Part part_ = Part::root;
  std::size_t depth_ = 0;  // of arrays in the vocabulary or in the merges
  std::vector<Json*> open_;
  std::vector<std::string> open_keys_;
  std::string key_;
  std::string token_;
  bool has_token_ = false;
  bool has_score_ = false;
  std::size_t values_ = 0;
  std::size_t parts_ = 0;  // strings in an array of the merges
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text) {
  TokenizerJson result;
  Reader reader(text, result);
  Json::sax_parse(text, &reader);
  return result;
}

}  // namespace attend::tokenizers
