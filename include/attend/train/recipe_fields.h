#pragma once

#include "attend/api.h"
#include "attend/train/recipe.h"

#include <string>
#include <variant>
#include <vector>

namespace attend::train {

/// Pointer to a value of a recipe; monostate if the recipe's kind of model does not have the value.
using FieldRef =
    std::variant<std::monostate, int64_t*, double*, bool*, std::string*, std::vector<int64_t>*,
                 std::vector<std::string>*, PositionScheme*, NormKind*, NormOrder*, Activation*,
                 RotaryScaling*, QKNormKind*, BranchScale*, Initialization*, Pooling*, Precision*,
                 OnNonFinite*, OptimizerKind*, ScheduleKind*, BestMetric*, TokenizerKind*,
                 UnknownCharacters*, TruncationSide*, ProblemType*>;

/// A value as written in recipe files. An enum is written by name. The number 0 is written as
/// `RecipeField::zero` if `zero` is not empty. The value is monostate if the recipe's kind of model
/// does not have it.
using FieldValue = std::variant<std::monostate, int64_t, double, bool, std::string,
                                std::vector<int64_t>, std::vector<std::string>>;

/// Describes a value of a recipe: its place in the file, its help and its limits.
struct ATTEND_API RecipeField {
  const char* section;       ///< table in the file: "", "data", "model", "lora" or
                             ///< "training"
  const char* key;           ///< key in the table, for example embed_dim
  const char* unit;          ///< unit or placeholder, for example TOKENS; empty if there is none
  const char* group;         ///< heading in the help of the command, for example "Model, size"
  const char* help;          ///< description, without unit and default
  double min;                ///< minimum of a number
  double max;                ///< maximum of a number
  FieldRef (*ref)(Recipe&);  ///< returns a pointer to the value; changes nothing
  const char* zero = "";     ///< name of the number 0, such as auto; empty if there is none
  const char* before = "";   ///< value, as in a recipe file, of runs that were written before the
                             ///< key existed and whose task reads it; empty = the default

  /// True if the value is a list of paths of files.
  bool is_paths() const;
};

/// All fields of a recipe. Recipe files, flags, help and range checks are generated from this
/// table.
///
///     for (const auto& field : recipe_fields())
///       std::cout << field.key << ": " << field.help << "\n";
ATTEND_API const std::vector<RecipeField>& recipe_fields();

/// Returns all lists of paths of a recipe.
ATTEND_API std::vector<std::vector<std::string>*> paths_of(Recipe& recipe);

/// Returns the value of a field.
ATTEND_API FieldValue field_value(const RecipeField& field, const Recipe& recipe);

/// Throws InputError if the field is a number out of its range. The message begins with `name`.
ATTEND_API void check_range(const RecipeField& field, const Recipe& recipe,
                            const std::string& name);

/// Returns a list of paths as text: "a.txt, b.txt", or "a.txt, b.txt and 5 more".
ATTEND_API std::string paths_text(const std::vector<std::string>& paths);

/// Returns the value of a field as text. A boolean is "on" or "off". A list is, for example, "1,2";
/// an empty list is "none". For paths, returns `paths_text`. Returns an empty string if the
/// recipe's kind of model does not have the field.
ATTEND_API std::string value_text(const RecipeField& field, const Recipe& recipe);

}  // namespace attend::train
