#include "io/json_fields.h"

#include "attend/io/utf8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t kShownBytes = 80;
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  const auto text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kShownBytes) return printable(text);
  return printable(text.substr(0, kShownBytes)) + "...";
}

JsonFields::JsonFields(const Json& value, std::string path)
    : json_(&value), path_(std::move(path)) {
  if (!value.is_object()) {
    throw InputError(fmt::format("`{}`: found {}, expected an object", path_, shown(value)));
  }
}

std::string JsonFields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void JsonFields::throw_unexpected(const std::string& key, std::string_view expected) const {
  const auto found = json_->find(key);
  throw InputError(fmt::format("`{}`: found {}, expected {}", path_of(key),
                               found == json_->end() ? "no such key" : shown(*found), expected));
}

const Json& JsonFields::value(const std::string& key) {
  const auto found = json_->find(key);
  if (found == json_->end()) throw_unexpected(key, "a value");
  read_.push_back(key);
  return *found;
}

std::string JsonFields::string(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_string()) throw_unexpected(key, "a string");
  return value(key).get<std::string>();
}

std::string JsonFields::string(const std::string& key, std::string_view missing) {
  ignore({key.c_str()});
  return has(key) ? string(key) : std::string(missing);
}

std::string JsonFields::short_string(const std::string& key) {
  constexpr std::size_t kMaxBytes = 1024;
  auto text = string(key);
  if (text.size() > kMaxBytes) {
    throw InputError(fmt::format("`{}`: found a string of {} bytes, expected at most {}",
                                 path_of(key), text.size(), kMaxBytes));
  }
  return text;
}

bool JsonFields::boolean(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_boolean()) throw_unexpected(key, "true or false");
  return value(key).get<bool>();
}

bool JsonFields::boolean(const std::string& key, bool missing) {
  ignore({key.c_str()});
  return has(key) ? boolean(key) : missing;
}

int64_t JsonFields::integer(const std::string& key, int64_t low, int64_t high) {
  const auto found = json_->find(key);
  const bool is_integer =
      found != json_->end() && found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!is_integer || found->get<int64_t>() < low || found->get<int64_t>() > high) {
    throw_unexpected(key, fmt::format("an integer from {} to {}", low, high));
  }
  return value(key).get<int64_t>();
}

int64_t JsonFields::integer(const std::string& key, int64_t low, int64_t high, int64_t missing) {
  ignore({key.c_str()});
  return has(key) ? integer(key, low, high) : missing;
}

int64_t JsonFields::size(const std::string& key, int64_t missing, int64_t min, int64_t max) {
  return integer(key, min, max, missing);
}

double JsonFields::number(const std::string& key, double missing) {
  ignore({key.c_str()});
  if (!has(key)) return missing;
  if (!json_->at(key).is_number()) throw_unexpected(key, "a number");
  return json_->at(key).get<double>();
}

std::vector<std::string> JsonFields::strings(const std::string& key) {
  ignore({key.c_str()});
  if (!has(key)) return {};
  const auto& array = json_->at(key);
  const bool are_strings = array.is_array() && std::ranges::all_of(array, &Json::is_string);
  if (!are_strings) throw_unexpected(key, "a list of strings");
  return array.get<std::vector<std::string>>();
}

std::vector<int64_t> JsonFields::integers(const std::string& key) {
  ignore({key.c_str()});
  if (!has(key)) return {};
  const auto& value = json_->at(key);
  const auto array = value.is_array() ? value : Json::array({value});
  if (!std::ranges::all_of(array, &Json::is_number_integer))
    throw_unexpected(key, "an integer or a list of integers");
  return array.get<std::vector<int64_t>>();
}

std::size_t JsonFields::choice(const std::string& key,
                               std::initializer_list<std::string_view> names) {
  const auto expected = fmt::format("one of {}", fmt::join(names, ", "));
  if (!json_->contains(key) || !json_->at(key).is_string()) throw_unexpected(key, expected);
  const auto text = string(key);
  const auto* found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw_unexpected(key, expected);
  return static_cast<std::size_t>(found - names.begin());
}

JsonFields JsonFields::object(const std::string& key) {
  if (!json_->contains(key)) throw_unexpected(key, "an object");
  return {value(key), path_of(key)};
}

std::vector<JsonFields> JsonFields::objects(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_array()) throw_unexpected(key, "an array");
  std::vector<JsonFields> elements;
  const auto& array = value(key);
  for (std::size_t i = 0; i < array.size(); ++i) {
    elements.emplace_back(array[i], fmt::format("{}[{}]", path_of(key), i));
  }
  return elements;
}

void JsonFields::require(const std::string& key, const Json& expected) {
  ignore({key.c_str()});
  if (has(key) && json_->at(key) != expected) throw_unexpected(key, shown(expected));
}

void JsonFields::ignore(std::initializer_list<const char*> keys) {
  read_.insert(read_.end(), keys.begin(), keys.end());
}

void JsonFields::finish() const {
  for (const auto& [key, value] : json_->items()) {
    if (std::ranges::find(read_, key) != read_.end()) continue;
    throw InputError(
        fmt::format("`{}`: unknown key with the value {}; this version of attend does not "
                    "know its effect",
                    path_of(printable(key)), shown(value)));
  }
}

}  // namespace attend
