#include "recipe_flags.h"

#include "attend/input_error.h"
#include "attend/train/task.h"
#include "parse_number.h"
#include "recipe_help.h"

#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend::app {
namespace {

using train::Recipe;
using train::RecipeField;

/// "[2; text: 4]": the first task's default, then those that differ.
std::string defaults_of(const RecipeField& field) {
  const auto& tasks = train::tasks();
  const auto first = train::value_text(field, tasks.front().defaults);
  std::string all = first;
  for (const auto& task : tasks) {
    const auto value = train::value_text(field, task.defaults);
    if (value != first) all += fmt::format("; {}: {}", task.name, value);
  }
  return all.empty() ? "" : fmt::format(" [{}]", all);
}

/// "what to learn; senses: which of two meanings ... [senses]"
std::string help_of(const RecipeField& field) {
  std::string help = field.help;
  if (std::string(field.key) == "text") return help;
  if (std::string(field.key) != "task") return help + defaults_of(field);
  for (const auto& task : train::tasks()) help += fmt::format("; {}: {}", task.name, task.summary);
  return help + fmt::format(" [{}]", Recipe{}.task);
}

std::string flag_of(const RecipeField& field) {
  std::string flag = std::string("--") + field.key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

/// What stands after the flag of a number: its unit, if it has one.
template <typename Number>
std::string type_of_number(const RecipeField& field) {
  const auto unit = unit_of(field);
  return !unit.empty() ? unit : std::is_integral_v<Number> ? "INT" : "FLOAT";
}

/// The same for a text: one of the tasks, a file, or any.
std::string type_of_text(const RecipeField& field) {
  const std::string_view key = field.key;
  if (key == "text") return "FILE";
  if (key != "task") return "TEXT";
  std::vector<std::string> names;
  for (const auto& task : train::tasks()) names.emplace_back(task.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

using Setters = std::vector<std::function<void(Recipe&)>>;

/// Adds the flag of a field, of whatever type, to a command; it stores what sets the value.
struct AddFlag {
  CLI::App& command;
  const RecipeField& field;
  Setters& given;

  // No task trains a model of another kind than that of the default recipe.
  CLI::Option* operator()(std::monostate) const { return nullptr; }

  template <typename T>
  CLI::Option* operator()(T*) const {
    const auto flag = flag_of(field);
    const auto help = help_of(field);
    const auto set = [&given = given, ref = field.ref](const T& value) {
      given.push_back([=](Recipe& recipe) { *std::get<T*>(ref(recipe)) = value; });
    };
    if constexpr (std::is_same_v<T, bool>) {
      const auto name = fmt::format("{},!--no-{}", flag, flag.substr(2));
      return command
          .add_flag_function(
              name, [=](int64_t n) { set(n > 0); }, help)
          ->disable_flag_override();
    } else if constexpr (std::is_enum_v<T>) {
      const auto names = fmt::format("{}", fmt::join(EnumNames<T>::names, "|"));
      const auto parse = [=](const std::string& text) {
        const auto value = from_string<T>(text);
        if (!value) {
          throw CLI::ValidationError(flag, fmt::format("expected {}, found '{}'", names, text));
        }
        set(*value);
      };
      return command.add_option_function<std::string>(flag, parse, help)->type_name(names);
    } else if constexpr (std::is_arithmetic_v<T>) {
      const auto parse = [=](const std::string& text) { set(parse_number<T>(flag, text)); };
      return command.add_option_function<std::string>(flag, parse, help)
          ->type_name(type_of_number<T>(field));
    } else {
      const auto take = [=](const std::string& text) {
        if (text.empty()) throw CLI::ValidationError(flag, "must not be empty");
        set(text);
      };
      return command.add_option_function<std::string>(flag, take, help)
          ->type_name(type_of_text(field));
    }
  }
};

}  // namespace

std::string text_of(const RecipeField& field, const Recipe& recipe) {
  Recipe values = recipe;
  return std::visit(
      [](auto value) {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return std::string();
        else if constexpr (std::is_enum_v<T>)
          return std::string(to_string(*value));
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(*value ? "on" : "off");
        else
          return fmt::format("{}", *value);
      },
      field.ref(values));
}

RecipeFlags::RecipeFlags(CLI::App& command) {
  Recipe types;  // only to see of which type each field is
  for (const auto& field : train::recipe_fields()) {
    auto* option = std::visit(AddFlag{command, field, given_}, field.ref(types));
    if (option != nullptr) option->group(group_of(field));
  }
}

Recipe RecipeFlags::resolve(const std::string& file) const {
  Recipe wanted;
  wanted.task.clear();
  if (!file.empty()) wanted = train::read_recipe(file, wanted);
  apply(wanted);
  if (wanted.task.empty()) wanted.task = wanted.text.empty() ? Recipe{}.task : "text";
  if (!wanted.text.empty() && !train::find_task(wanted.task).reads_text) {
    throw InputError(fmt::format("the task '{}' reads no file: leave --text away", wanted.task));
  }
  Recipe recipe = train::find_task(wanted.task).defaults;
  if (!file.empty()) recipe = train::read_recipe(file, recipe);
  recipe.task = wanted.task;
  return over(recipe);
}

Recipe RecipeFlags::over(Recipe base) const {
  apply(base);
  train::check_recipe(base);
  return base;
}

void RecipeFlags::apply(Recipe& recipe) const {
  for (const auto& set : given_) set(recipe);
}

}  // namespace attend::app
