// Recipe values in TOML.
#include "train/recipe_toml.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace attend::train {
namespace {

constexpr std::array kTables{"data", "model", "training", kCard};
constexpr std::array kCardKeys{"summary", "device", "seconds", "val_loss", "val_accuracy"};

std::string full_key(const RecipeField& field) {
  return field.section[0] == '\0' ? field.key : fmt::format("{}.{}", field.section, field.key);
}

/// See `assign`.
struct Assign {
  const toml::node& node;
  const std::string& where;
  std::string_view kind;
  std::string_view zero = {};  ///< `RecipeField::zero`

  template <typename T>
  void expect(const T& value, std::string_view type) const {
    if (value) return;
    std::ostringstream found;
    node.visit([&](const auto& n) {
      if constexpr (toml::is_value<decltype(n)>)
        found << n;
      else
        found << "a table or an array";
    });
    throw InputError(fmt::format("{}: expected {}, found {}", where, type, found.str()));
  }
  void operator()(std::monostate) const {
    throw InputError(fmt::format("{}: a {} has no such option", where, kind));
  }
  void operator()(int64_t* target) const {
    if (!zero.empty() && node.value_exact<std::string>() == zero) {
      *target = 0;
      return;
    }
    const auto value = node.value_exact<int64_t>();
    expect(value, zero.empty() ? "an integer" : fmt::format("an integer or '{}'", zero));
    *target = *value;
  }
  void operator()(double* target) const {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    expect(value, "a number");
    *target = *value;
  }
  void operator()(bool* target) const {
    const auto value = node.value_exact<bool>();
    expect(value, "true or false");
    *target = *value;
  }
  void operator()(std::string* target) const {
    const auto value = node.value_exact<std::string>();
    expect(value, "a string");
    *target = *value;
  }
  void operator()(std::vector<int64_t>* target) const {
    const auto* array = node.as_array();
    const bool integers = array != nullptr && (array->empty() || array->is_homogeneous<int64_t>());
    expect(integers, "a list of integers");
    target->clear();
    for (const auto& element : *array) target->push_back(*element.value<int64_t>());
  }
  template <typename Enum>
  void operator()(Enum* target) const {
    const auto value = from_string<Enum>(node.value_exact<std::string>().value_or(""));
    const auto names = fmt::format("one of {}", fmt::join(EnumNames<Enum>::names, ", "));
    expect(value, names);
    *target = *value;
  }
};

/// Checks the keys of a table. `prefix` is the table's name with a dot, such as "model."; empty for
/// the top-level keys of the file.
void check_keys_of(const toml::table& table, const std::string& prefix, const std::string& file) {
  std::vector<std::string> known{kKindKey};
  for (const auto& field : recipe_fields()) known.push_back(full_key(field));
  for (const auto* key : kCardKeys) known.push_back(fmt::format("{}.{}", kCard, key));
  for (const auto& [key, node] : table) {
    const auto name = prefix + std::string(key.str());
    const bool is_table = node.is_table() && prefix.empty();
    if (is_table && std::find(kTables.begin(), kTables.end(), name) != kTables.end()) {
      check_keys_of(*node.as_table(), name + ".", file);
    } else if (is_table) {
      std::vector<std::string> tables;
      for (const auto* each : kTables) tables.push_back(fmt::format("[{}]", each));
      const auto found = fmt::format("[{}]", name);
      throw InputError(fmt::format("{}: unknown table {}, expected one of {}{}", file, found,
                                   fmt::join(tables, ", "), did_you_mean(found, tables)));
    } else if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(
          fmt::format("{}: unknown key '{}'{}", file, name, did_you_mean(name, known)));
    }
  }
}

}  // namespace

toml::table parse_toml(const std::filesystem::path& path) {
  const auto file = path.string();
  try {
    return toml::parse(read_text(path), file);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << error.source().begin;
    throw InputError(
        fmt::format("{}: invalid TOML: {} ({})", file, error.description(), where.str()));
  }
}

void check_keys(const toml::table& table, const std::string& file) {
  check_keys_of(table, "", file);
}

toml::table parse_recipe(const std::filesystem::path& path) {
  auto table = parse_toml(path);
  check_keys(table, path.string());
  return table;
}

void assign(const toml::node& node, const std::string& where, FieldRef target,
            std::string_view kind) {
  std::visit(Assign{node, where, kind}, target);
}

void assign_field(const RecipeField& field, const toml::table& table, const std::string& file,
                  Recipe& recipe) {
  const auto key = full_key(field);
  const auto node = table.at_path(key);
  if (!node) return;
  const auto where = fmt::format("{}: {}", file, key);
  std::visit(Assign{*node.node(), where, model_kind(recipe.model), field.zero}, field.ref(recipe));
}

void insert_field(const RecipeField& field, const Recipe& recipe, toml::table& table) {
  auto& section = field.section[0] == '\0'
                      ? table
                      : *table.insert(field.section, toml::table{}).first->second.as_table();
  const auto insert = [&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      toml::array array;
      for (const auto element : value) array.push_back(element);
      section.insert(field.key, std::move(array));
    } else if constexpr (!std::is_same_v<T, std::monostate>) {
      section.insert(field.key, value);
    }
  };
  std::visit(insert, field_value(field, recipe));
}

std::string to_text(const toml::table& table) {
  std::ostringstream text;
  text << table << "\n";
  return text.str();
}

}  // namespace attend::train
