#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend::tokenizers {

/// Reads the keys of a JSON object of tokenizer.json. Errors name the key with its path, such as
/// `normalizer.normalizers[1].pattern`, the value found, and what is expected.
class Fields {
 public:
  /// Throws InputError if `value` is not an object.
  Fields(const nlohmann::json& value, std::string path);

  bool has(const std::string& key) const { return json_->contains(key) && !is_null(key); }
  bool is_null(const std::string& key) const { return json_->at(key).is_null(); }

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
  /// Returns a string of one character.
  std::string character(const std::string& key);
  /// Returns the index of a string in `names`.
  std::size_t choice(const std::string& key, std::initializer_list<std::string_view> names);
  /// Returns the value of a key.
  const nlohmann::json& value(const std::string& key);
  /// Returns an object.
  Fields object(const std::string& key);
  /// Returns the elements of an array of objects.
  std::vector<Fields> objects(const std::string& key);

  /// Marks keys that have no effect on token ids.
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

/// Throws InputError if a text became much larger than the original text: a damaged file may have
/// many parts that each double it.
void check_growth(std::string_view key, std::size_t original_bytes, std::size_t bytes);

/// Returns a JSON value in a message, shortened.
std::string shown(const nlohmann::json& value);

/// One row of the table of a kind of part, such as the normalizers: the name that `type` has in the
/// file, and the function that reads the other keys.
template <typename Part>
struct PartType {
  std::string_view name;
  Part (*parse)(Fields& fields);
};

[[noreturn]] void throw_unknown_type(const Fields& fields, const std::string& found,
                                     const std::vector<std::string_view>& expected);

/// Appends the part that a JSON object describes to `parts`, or the parts of a Sequence, which are
/// under the key `sequence_key`. Throws InputError if no row of the table has the type.
template <typename Part, typename Table>
void parse_parts(Fields fields, const Table& table, const std::string& sequence_key,
                 std::vector<Part>& parts) {
  const auto type = fields.string("type");
  if (type == "Sequence") {
    for (auto& element : fields.objects(sequence_key)) {
      parse_parts(std::move(element), table, sequence_key, parts);
    }
    fields.finish();
    return;
  }
  for (const PartType<Part>& row : table) {
    if (row.name != type) continue;
    parts.push_back(row.parse(fields));
    fields.finish();
    return;
  }
  std::vector<std::string_view> names{"Sequence"};
  for (const auto& row : table) names.push_back(row.name);
  throw_unknown_type(fields, type, names);
}

/// Returns the parts under `key` of tokenizer.json, see `parse_parts`; none if the key is missing.
template <typename Part, typename Table>
std::vector<Part> parts_under(const char* key, Fields& root, const Table& table,
                              const std::string& sequence_key) {
  root.ignore({key});
  std::vector<Part> parts;
  if (root.has(key)) parse_parts(root.object(key), table, sequence_key, parts);
  return parts;
}

}  // namespace attend::tokenizers
