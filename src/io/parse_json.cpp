#include "io/parse_json.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

namespace attend {

namespace {

/// Maximum nesting depth. It limits the recursion of code that reads the parsed values.
constexpr int kDepth = 100;

}  // namespace

using Json = nlohmann::json;

Json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDepth)
      throw InputError(fmt::format("JSON is nested deeper than {} levels", kDepth));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw InputError(fmt::format("duplicate key '{}'", value.get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    throw InputError(error.what());
  }
}

}  // namespace attend
