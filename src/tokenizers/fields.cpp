#include "tokenizers/fields.h"

#include "attend/input_error.h"
#include "io/utf8.h"
#include "tokenizers/characters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend::tokenizers {

using Json = nlohmann::json;

std::string shown(const Json& value) {
  constexpr std::size_t kShownBytes = 80;
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  const auto text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kShownBytes) return printable(text);
  return printable(text.substr(0, kShownBytes)) + "...";
}

void throw_unknown_type(const Fields& fields, const std::string& found,
                        const std::vector<std::string_view>& expected) {
  throw InputError(fmt::format("`{}`: found '{}', which is not supported, expected one of {}",
                               fields.path_of("type"), printable(found.substr(0, 80)),
                               fmt::join(expected, ", ")));
}

void check_growth(std::string_view key, std::size_t original_bytes, std::size_t bytes) {
  constexpr std::size_t kFactor = 64;
  constexpr std::size_t kFixedBytes = std::size_t{1} << 20;
  const auto most = kFactor * original_bytes + kFixedBytes;
  if (bytes <= most) return;
  throw InputError(fmt::format("`{}`: a text of {} bytes became {} bytes, expected at most {}", key,
                               original_bytes, bytes, most));
}

Fields::Fields(const Json& value, std::string path) : json_(&value), path_(std::move(path)) {
  if (!value.is_object()) {
    throw InputError(fmt::format("`{}`: found {}, expected an object", path_, shown(value)));
  }
}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Fields::throw_unexpected(const std::string& key, std::string_view expected) const {
  const auto found = json_->find(key);
  throw InputError(fmt::format("`{}`: found {}, expected {}", path_of(key),
                               found == json_->end() ? "no such key" : shown(*found), expected));
}

const Json& Fields::value(const std::string& key) {
  const auto found = json_->find(key);
  if (found == json_->end()) throw_unexpected(key, "a value");
  read_.push_back(key);
  return *found;
}

std::string Fields::string(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_string()) throw_unexpected(key, "a string");
  return value(key).get<std::string>();
}

std::string Fields::string(const std::string& key, std::string_view missing) {
  ignore({key.c_str()});
  return has(key) ? string(key) : std::string(missing);
}

std::string Fields::short_string(const std::string& key) {
  constexpr std::size_t kMaxBytes = 1024;
  auto text = string(key);
  if (text.size() > kMaxBytes) {
    throw InputError(fmt::format("`{}`: found a string of {} bytes, expected at most {}",
                                 path_of(key), text.size(), kMaxBytes));
  }
  return text;
}

bool Fields::boolean(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_boolean()) throw_unexpected(key, "true or false");
  return value(key).get<bool>();
}

bool Fields::boolean(const std::string& key, bool missing) {
  ignore({key.c_str()});
  return has(key) ? boolean(key) : missing;
}

int64_t Fields::integer(const std::string& key, int64_t low, int64_t high) {
  const auto found = json_->find(key);
  const bool is_integer =
      found != json_->end() && found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!is_integer || found->get<int64_t>() < low || found->get<int64_t>() > high) {
    throw_unexpected(key, fmt::format("an integer from {} to {}", low, high));
  }
  return value(key).get<int64_t>();
}

int64_t Fields::integer(const std::string& key, int64_t low, int64_t high, int64_t missing) {
  ignore({key.c_str()});
  return has(key) ? integer(key, low, high) : missing;
}

std::string Fields::character(const std::string& key) {
  auto text = string(key);
  if (count_characters(text) != 1) throw_unexpected(key, "one character");
  return text;
}

std::size_t Fields::choice(const std::string& key, std::initializer_list<std::string_view> names) {
  const auto expected = fmt::format("one of {}", fmt::join(names, ", "));
  if (!json_->contains(key) || !json_->at(key).is_string()) throw_unexpected(key, expected);
  const auto text = string(key);
  const auto* found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) throw_unexpected(key, expected);
  return static_cast<std::size_t>(found - names.begin());
}

Fields Fields::object(const std::string& key) {
  if (!json_->contains(key)) throw_unexpected(key, "an object");
  return {value(key), path_of(key)};
}

std::vector<Fields> Fields::objects(const std::string& key) {
  if (!json_->contains(key) || !json_->at(key).is_array()) throw_unexpected(key, "an array");
  std::vector<Fields> elements;
  const auto& array = value(key);
  for (std::size_t i = 0; i < array.size(); ++i) {
    elements.emplace_back(array[i], fmt::format("{}[{}]", path_of(key), i));
  }
  return elements;
}

void Fields::ignore(std::initializer_list<const char*> keys) {
  read_.insert(read_.end(), keys.begin(), keys.end());
}

void Fields::finish() const {
  for (const auto& [key, value] : json_->items()) {
    if (std::ranges::find(read_, key) != read_.end()) continue;
    throw InputError(
        fmt::format("`{}`: unknown key with the value {}; this version of attend does not "
                    "know its effect",
                    path_of(printable(key)), shown(value)));
  }
}

}  // namespace attend::tokenizers
