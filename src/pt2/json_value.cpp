#include "pt2/json_value.h"

#include "attend/input_error.h"

#include <fmt/format.h>

namespace attend::pt2 {

void JsonValue::fail(const std::string& why) const {
  throw InputError(fmt::format("{}: {}", path_.empty() ? "the JSON document" : path_, why));
}

void JsonValue::expected(const char* what) const {
  constexpr std::size_t kMaxLength = 60;
  // dump() needs valid UTF-8, which the JSON parser has checked.
  auto found = json_->dump();
  if (found.size() > kMaxLength) found = found.substr(0, kMaxLength) + "...";
  fail(fmt::format("expected {}, found {}", what, found));
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!json_->is_object()) expected("an object");
  const auto found = json_->find(key);
  if (found == json_->end()) fail(fmt::format("the key '{}' is missing", key));
  return JsonValue(*found, path_.empty() ? key : fmt::format("{}.{}", path_, key));
}

bool JsonValue::has(const std::string& key) const {
  return json_->is_object() && json_->contains(key) && !json_->at(key).is_null();
}

std::vector<JsonValue> JsonValue::items() const {
  if (!json_->is_array()) expected("a list");
  std::vector<JsonValue> all;
  for (std::size_t i = 0; i < json_->size(); ++i) {
    all.emplace_back((*json_)[i], fmt::format("{}[{}]", path_, i));
  }
  return all;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::entries() const {
  if (!json_->is_object()) expected("an object");
  std::vector<std::pair<std::string, JsonValue>> all;
  for (const auto& [key, value] : json_->items()) all.emplace_back(key, at(key));
  return all;
}

std::pair<std::string, JsonValue> JsonValue::only() const {
  if (!json_->is_object() || json_->size() != 1) expected("an object with one key");
  const auto key = json_->begin().key();
  return {key, at(key)};
}

int64_t JsonValue::integer() const {
  // nlohmann::json would silently convert true and 1.5 to integers, and wrap integers above
  // INT64_MAX.
  if (!json_->is_number_integer() ||
      (json_->is_number_unsigned() && json_->get<uint64_t>() > uint64_t{INT64_MAX})) {
    expected("a 64-bit integer");
  }
  return json_->get<int64_t>();
}

double JsonValue::real() const {
  // The schema encodes infinities and NaN as strings.
  if (json_->is_string()) {
    const auto text = json_->get<std::string>();
    if (text == "Infinity") return INFINITY;
    if (text == "-Infinity") return -INFINITY;
    if (text == "NaN") return NAN;
  }
  if (!json_->is_number()) expected("a number");
  return json_->get<double>();
}

bool JsonValue::boolean() const {
  if (!json_->is_boolean()) expected("true or false");
  return json_->get<bool>();
}

std::string JsonValue::text() const {
  if (!json_->is_string()) expected("a string");
  return json_->get<std::string>();
}

}  // namespace attend::pt2
