#pragma once

#include "train/recipe_fields.h"

#include <toml++/toml.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace attend::train {

/// Key of the kind of model.
inline constexpr const char* kKindKey = "model.kind";
/// Name of the table with the expected results; see `RecipeCard`.
inline constexpr const char* kCard = "expected";

/// Parses a TOML file. Throws InputError if the file is missing or not TOML.
toml::table parse_toml(const std::filesystem::path& path);

/// Throws InputError if `table` has a key or a table that recipe files do not have. `file` is the
/// file's name, for the message.
void check_keys(const toml::table& table, const std::string& file);

/// Parses a recipe file. Throws InputError in the same cases as `parse_toml` and `check_keys`.
toml::table parse_recipe(const std::filesystem::path& path);

/// Assigns a TOML value to `target`. Throws InputError if the value has another type than `target`,
/// if it is an unknown name for an enum, or if `target` is monostate. A floating-point `target`
/// also accepts an integer. `where` (file and key) and `kind` (kind of model) are used in the
/// message.
void assign(const toml::node& node, const std::string& where, FieldRef target,
            std::string_view kind = {});

/// Sets a field of `recipe` if `table` has a value for the field. `file` is the file's name, for
/// the message. Throws InputError in the same cases as `assign`, except that an integer field also
/// accepts the name `RecipeField::zero` for the number 0.
void assign_field(const RecipeField& field, const toml::table& table, const std::string& file,
                  Recipe& recipe);

/// Inserts the value of a field in its section of `table`.
void insert_field(const RecipeField& field, const Recipe& recipe, toml::table& table);

/// Returns `table` as the text of a TOML file.
std::string to_text(const toml::table& table);

}  // namespace attend::train
