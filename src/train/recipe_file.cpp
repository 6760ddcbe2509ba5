// The recipe's file form. Apart from recipe.cpp because toml++ is slow to compile.
#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/nearest_name.h"
#include "attend/train/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <sstream>

namespace attend::train {
namespace {

std::string full_key(const RecipeField& field) {
  return field.section[0] == '\0' ? field.key : fmt::format("{}.{}", field.section, field.key);
}

/// Sets one field from TOML; whole numbers may stand for real ones, nothing else is converted.
struct Assign {
  const toml::node& node;
  const std::string& where;

  template <typename T>
  void expect(const T& value, const char* type) const {
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
  void operator()(int64_t* target) const {
    const auto value = node.value_exact<int64_t>();
    expect(value, "a whole number");
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
  template <typename Enum>
  void operator()(Enum* target) const {
    const auto value = from_string<Enum>(node.value_exact<std::string>().value_or(""));
    const auto names = fmt::format("one of {}", fmt::join(EnumNames<Enum>::names, ", "));
    expect(value, names.c_str());
    *target = *value;
  }
};

struct Print {
  toml::table& table;
  const char* key;

  template <typename T>
  void operator()(const T* value) const {
    if constexpr (std::is_enum_v<T>) {
      table.insert(key, std::string(to_string(*value)));
    } else {
      table.insert(key, *value);
    }
  }
};

void check_keys(const toml::table& table, const std::string& prefix, const std::string& file) {
  std::vector<std::string> known;
  for (const auto& field : recipe_fields()) known.push_back(full_key(field));
  for (const auto& [key, node] : table) {
    const auto name = prefix + std::string(key.str());
    if (node.is_table() && prefix.empty() && (name == "model" || name == "training")) {
      check_keys(*node.as_table(), name + ".", file);
    } else if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(fmt::format("{}: unknown key '{}'; did you mean '{}'?", file, name,
                                   nearest_name(name, known)));
    }
  }
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path, const Recipe& base) {
  const auto file = path.string();
  toml::table table;
  try {
    table = toml::parse(read_text(path), file);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << error.source().begin;
    throw InputError(fmt::format("{}: not TOML: {} ({})", file, error.description(), where.str()));
  }
  check_keys(table, "", file);
  Recipe recipe = base;
  for (const auto& field : recipe_fields()) {
    const auto key = full_key(field);
    const auto node = table.at_path(key);
    if (!node) continue;
    std::visit(Assign{*node.node(), fmt::format("{}: {}", file, key)}, field.ref(recipe));
  }
  return recipe;
}

std::string to_toml(const Recipe& recipe) {
  Recipe values = recipe;  // fields refer to what they may change
  toml::table table;
  for (const auto& field : recipe_fields()) {
    auto& target = field.section[0] == '\0'
                       ? table
                       : *table.insert(field.section, toml::table{}).first->second.as_table();
    std::visit(Print{target, field.key}, field.ref(values));
  }
  std::ostringstream text;
  text << table << "\n";
  return text.str();
}

}  // namespace attend::train
