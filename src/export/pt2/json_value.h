#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace attend::pt2 {

/// A value of a JSON text, and where it stands there. What it is asked for and is not, it refuses
/// with an InputError that names the place, what was expected and what was found.
///
///     JsonValue(json).at("graph").at("nodes").items()
class JsonValue {
 public:
  explicit JsonValue(const nlohmann::json& json, std::string place = {})
      : json_(&json), place_(std::move(place)) {}

  JsonValue at(const std::string& key) const;
  bool has(const std::string& key) const;  ///< and it is not null
  std::vector<JsonValue> items() const;
  std::vector<std::pair<std::string, JsonValue>> entries() const;
  /// Of an object with one key, as the schema has unions.
  std::pair<std::string, JsonValue> only() const;

  int64_t integer() const;
  double real() const;
  bool boolean() const;
  std::string text() const;

  [[noreturn]] void fail(const std::string& why) const;

 private:
  [[noreturn]] void expected(const char* what) const;

  const nlohmann::json* json_;
  std::string place_;
};

}  // namespace attend::pt2
