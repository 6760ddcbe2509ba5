#include "export/pt2/json_value.h"

#include "attend/input_error.h"

#include <fmt/format.h>

namespace attend::pt2 {

void JsonValue::fail(const std::string& why) const {
  throw InputError(fmt::format("{}: {}", place_.empty() ? "the whole" : place_, why));
}

void JsonValue::expected(const char* what) const {
  constexpr std::size_t kShown = 60;
  // What is no UTF-8 was refused when the text was read.
  auto found = json_->dump();
  if (found.size() > kShown) found = found.substr(0, kShown) + "...";
  fail(fmt::format("expected {}, found {}", what, found));
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!json_->is_object()) expected("an object");
  const auto found = json_->find(key);
  if (found == json_->end()) fail(fmt::format("has no '{}'", key));
  return JsonValue(*found, place_.empty() ? key : fmt::format("{}.{}", place_, key));
}

bool JsonValue::has(const std::string& key) const {
  return json_->is_object() && json_->contains(key) && !json_->at(key).is_null();
}

std::vector<JsonValue> JsonValue::items() const {
  if (!json_->is_array()) expected("a list");
  std::vector<JsonValue> all;
  for (std::size_t i = 0; i < json_->size(); ++i) {
    all.emplace_back((*json_)[i], fmt::format("{}[{}]", place_, i));
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
  if (!json_->is_object() || json_->size() != 1) expected("an object of one key");
  const auto key = json_->begin().key();
  return {key, at(key)};
}

int64_t JsonValue::integer() const {
  // nlohmann would make numbers of true and of 1.5 without a word, and wrap those beyond 2^63.
  if (!json_->is_number_integer() ||
      (json_->is_number_unsigned() && json_->get<uint64_t>() > uint64_t{INT64_MAX})) {
    expected("a whole number of 64 bits");
  }
  return json_->get<int64_t>();
}

double JsonValue::real() const {
  // Python writes what JSON has no numbers for as texts.
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
  if (!json_->is_string()) expected("a text");
  return json_->get<std::string>();
}

}  // namespace attend::pt2
