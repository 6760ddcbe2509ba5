#pragma once

#include "attend/api.h"
#include "attend/input_error.h"
#include "io/files.h"
#include "io/parse_json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// Reads the keys of a JSON object of a foreign file, each of which must be known: a key that a
/// reader does not know may change the result. Errors name the key with its path, such as
/// `normalizer.normalizers[1].pattern`, the value found, and what is expected. In getters with a
/// default, the value null counts as missing.
///
///     JsonFields fields(json, "");
///     auto layers = fields.size("n_layer", 12);
///     fields.require("scale_attn_weights", true);
///     fields.finish();
class ATTEND_API JsonFields {
 public:
  /// Throws InputError if `value` is not an object.
  JsonFields(const nlohmann::json& value, std::string path);

  bool has(const std::string& key) const { return json_->contains(key) && !is_null(key); }
  /// True if the key is present and its value is null.
  bool is_null(const std::string& key) const {
    return json_->contains(key) && json_->at(key).is_null();
  }

  // A getter without a default throws InputError if the key is missing.
  std::string string(const std::string& key);
  std::string string(const std::string& key, std::string_view missing);
  /// Returns a string of at most 1024 bytes. Parts that insert a text many times use it, so that a
  /// damaged file does not fill the memory.
  std::string short_string(const std::string& key);
  bool boolean(const std::string& key);
  bool boolean(const std::string& key, bool missing);
  int64_t integer(const std::string& key, int64_t low, int64_t high);
  int64_t integer(const std::string& key, int64_t low, int64_t high, int64_t missing);
  /// Returns an integer from `min` to `max`.
  int64_t size(const std::string& key, int64_t missing, int64_t min = 1,
               int64_t max = std::numeric_limits<int32_t>::max());
  double number(const std::string& key, double missing);
  /// Returns a list of strings; empty if the key is missing.
  std::vector<std::string> strings(const std::string& key);
  /// Returns an integer or a list of integers as a list; empty if the key is missing.
  std::vector<int64_t> integers(const std::string& key);
  /// Returns the index of a string in `names`.
  std::size_t choice(const std::string& key, std::initializer_list<std::string_view> names);
  /// Returns the second element of the pair whose first is the string. `choices`: a container of
  /// pairs of names and values.
  template <typename T, typename Choices = std::initializer_list<std::pair<std::string_view, T>>>
  T choice(const std::string& key, std::string_view missing, const Choices& choices) {
    const auto found = string(key, missing);
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == found) return value;
      names.append(names.empty() ? "" : ", ").append(name);
    }
    throw_unexpected(key, "one of " + names);
  }
  /// Returns the value of a key.
  const nlohmann::json& value(const std::string& key);
  /// Returns an object.
  JsonFields object(const std::string& key);
  /// Returns the elements of an array of objects.
  std::vector<JsonFields> objects(const std::string& key);

  /// Throws InputError if the key has a value other than `expected`.
  void require(const std::string& key, const nlohmann::json& expected);
  /// Accepts keys that have no effect.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws InputError if the object has a key that was not read or ignored.
  void finish() const;

  const nlohmann::json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;
  [[noreturn]] void throw_unexpected(const std::string& key, std::string_view expected) const;

 private:
  const nlohmann::json* json_;
  std::string path_;
  std::vector<std::string> read_;
};

/// Returns a JSON value in a message, shortened.
ATTEND_API std::string shown(const nlohmann::json& value);

/// Returns `use(fields)`, where `fields` reads the object in a JSON file. Errors name the file.
template <typename Use>
auto with_json_file(const std::filesystem::path& path, const Use& use) {
  check_is_regular(path);
  const auto text = read_bytes(path, {.bytes = std::size_t{16} << 20});
  return with_source(path.string(), [&] {
    const auto json = parse_json(text);
    JsonFields fields(json, "");
    return use(fields);
  });
}

}  // namespace attend
