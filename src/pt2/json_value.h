#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace attend::pt2 {

/// A JSON value with its path in the document. Accessors throw InputError if the value does not
/// have the requested type. The message names the path, the type expected and the value found.
///
///     JsonValue(json).at("graph").at("nodes").items()
class JsonValue {
 public:
  explicit JsonValue(const nlohmann::json& json, std::string path = {})
      : json_(&json), path_(std::move(path)) {}

  JsonValue at(const std::string& key) const;
  bool has(const std::string& key) const;  ///< false if the key is missing or the value is null
  std::vector<JsonValue> items() const;
  std::vector<std::pair<std::string, JsonValue>> entries() const;
  /// Returns the key and value of an object with exactly one key. torch.export's schema encodes
  /// unions as such objects.
  std::pair<std::string, JsonValue> only() const;

  int64_t integer() const;
  double real() const;
  bool boolean() const;
  std::string text() const;
  const nlohmann::json& json() const { return *json_; }

  [[noreturn]] void fail(const std::string& why) const;

 private:
  [[noreturn]] void expected(const char* what) const;

  const nlohmann::json* json_;
  std::string path_;
};

}  // namespace attend::pt2
