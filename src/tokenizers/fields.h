#pragma once

#include "io/json_fields.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend::tokenizers {

/// Throws InputError if a text became much larger than the original text: a damaged file may have
/// many parts that each double it. The sizes are numbers of `unit`.
void check_growth(std::string_view key, std::size_t original_size, std::size_t size,
                  std::string_view unit = "bytes");

/// Returns a string of one character.
std::string one_character(JsonFields& fields, const std::string& key);

/// One row of the table of a kind of part, such as the normalizers: the name that `type` has in the
/// file, and the function that reads the other keys.
template <typename Part>
struct PartType {
  std::string_view name;
  Part (*parse)(JsonFields& fields);
};

[[noreturn]] void throw_unknown_type(const JsonFields& fields, const std::string& found,
                                     const std::vector<std::string_view>& expected);

/// Appends the part that a JSON object describes to `parts`, or the parts of a Sequence, which are
/// under the key `sequence_key`. Throws InputError if no row of the table has the type.
template <typename Part, typename Table>
void parse_parts(JsonFields fields, const Table& table, const std::string& sequence_key,
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
std::vector<Part> parts_under(const char* key, JsonFields& root, const Table& table,
                              const std::string& sequence_key) {
  root.ignore({key});
  std::vector<Part> parts;
  if (root.has(key)) parse_parts(root.object(key), table, sequence_key, parts);
  return parts;
}

}  // namespace attend::tokenizers
