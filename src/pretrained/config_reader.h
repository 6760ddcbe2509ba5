#pragma once

#include "attend/api.h"
#include "attend/input_error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// Reads the keys of a JSON object, such as `config.json`, each of which must be known: a key that
/// an architecture does not know may change its result. A key with the value null counts as absent.
///
///     ConfigReader reader(folder / "config.json");
///     config.num_layers = reader.integer("n_layer", 12);
///     reader.require("scale_attn_weights", true);
///     reader.finish();
class ATTEND_API ConfigReader {
 public:
  /// Reads a file. Throws InputError if it is missing or not a JSON object.
  explicit ConfigReader(const std::filesystem::path& path);
  /// Reads `json`, the object `name` of the file `path`.
  ConfigReader(const std::filesystem::path& path, std::string name, nlohmann::json json);

  // These functions return the value of a key, or `otherwise` if it is absent. They throw
  // InputError if the value has another type.

  /// Returns an integer from `min` to `max`.
  int64_t integer(const char* key, int64_t otherwise, int64_t min = 1,
                  int64_t max = std::numeric_limits<int32_t>::max());
  /// Returns an integer that is not negative, or nothing.
  std::optional<int64_t> optional_integer(const char* key);
  double number(const char* key, double otherwise);
  bool boolean(const char* key, bool otherwise);
  std::string text(const char* key, const std::string& otherwise = "");
  std::vector<std::string> texts(const char* key);
  /// Returns an integer or a list of integers as a list.
  std::vector<int64_t> integers(const char* key);
  /// Returns an object; empty if it is absent.
  ConfigReader object(const char* key);

  /// Returns the second element of the pair whose first is the value. `choices`: a container of
  /// pairs of names and values.
  template <typename T, typename Choices = std::initializer_list<std::pair<std::string_view, T>>>
  T choice(const char* key, std::string_view otherwise, const Choices& choices) {
    const auto found = text(key, std::string(otherwise));
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == found) return value;
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
    fail(key, fmt::format("'{}'", found), names);
  }

  /// True if the key is present, also with the value null.
  bool contains(const char* key) const { return json_.contains(key); }
  /// Returns the number of keys.
  int64_t size() const { return static_cast<int64_t>(json_.size()); }
  /// True if the key has a value.
  bool has(const char* key) const;
  /// Throws InputError if the key has a value other than `value`.
  void require(const char* key, const nlohmann::json& value);
  /// Accepts keys that have no effect on the model's outputs.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws InputError if a key was not read, required or ignored.
  void finish() const;

  /// Throws InputError for the value of a key.
  [[noreturn]] void fail(const char* key, const std::string& found,
                         const std::string& expected) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  const nlohmann::json* find(const char* key);

  std::filesystem::path path_;
  std::string name_;  // of the object in the file, with a dot at the end; empty for the whole file
  nlohmann::json json_;
  std::set<std::string> known_;
};

}  // namespace attend
