#include "recipes/recipe_flags.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/nearest_name.h"
#include "attend/train/read_table.h"
#include "attend/train/task.h"
#include "attend/train/training_setup.h"
#include "options.h"
#include "recipes/recipe_files.h"
#include "terminal/activity.h"

#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>

namespace attend::app {
namespace {

using train::Recipe;
using train::RecipeField;

/// Returns the default of the first task that has the field, in brackets: "[2]", or
/// "[2, depends on the task]" if the defaults of the tasks differ.
std::string default_of(const RecipeField& field) {
  std::vector<std::string> values;
  for (const auto& task : train::tasks()) {
    const auto value = train::value_text(field, task.defaults);
    if (!value.empty()) values.push_back(value);
  }
  if (values.empty()) return "";
  const bool differ = std::count(values.begin(), values.end(), values.front()) <
                      static_cast<std::ptrdiff_t>(values.size());
  return fmt::format(" [{}{}]", values.front(), differ ? ", depends on the task" : "");
}

/// Returns a pointer to the field in a recipe of the first task whose model has the field. The
/// caller uses only the type of the pointer.
train::FieldRef type_of(const RecipeField& field) {
  static auto kinds = [] {
    std::vector<Recipe> defaults;
    for (const auto& task : train::tasks()) defaults.push_back(task.defaults);
    return defaults;
  }();
  train::FieldRef ref;
  for (auto& recipe : kinds) {
    if (std::holds_alternative<std::monostate>(ref)) ref = field.ref(recipe);
  }
  return ref;
}

std::string help_of(const RecipeField& field) {
  std::string help = field.help;
  if (std::string(field.key) != "task") return help + default_of(field);
  return help + fmt::format(", see 'attend tasks' [{}]", Recipe{}.task);
}

/// Returns the placeholder that the help shows after a flag whose value is a number: the field's
/// unit, or INT or FLOAT if the field has none.
template <typename Number>
std::string type_of_number(const RecipeField& field) {
  const std::string unit = field.unit;
  return !unit.empty() ? unit : std::is_integral_v<Number> ? "INT" : "FLOAT";
}

/// Parses integers separated by commas, or the text "none", which means an empty list. Throws
/// CLI::ValidationError for any other text.
std::vector<int64_t> parse_list(const std::string& flag, const std::string& text) {
  std::vector<int64_t> values;
  if (text == "none") return values;
  std::istringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    values.push_back(parse_number<int64_t>(flag, part));
  }
  return values;
}

/// Returns the placeholder that the help shows after a flag whose value is a string. For --task,
/// returns the names of all tasks. For any other flag, returns the field's unit, or TEXT if the
/// field has none.
std::string type_of_text(const RecipeField& field) {
  if (std::string_view(field.key) != "task") return *field.unit != '\0' ? field.unit : "TEXT";
  std::vector<std::string> names;
  for (const auto& task : train::tasks()) names.emplace_back(task.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

/// True if the value of a key with paths is a list, such as ["a.txt", "b.txt"], and not a path.
bool is_list(const std::string& text) {
  return text.starts_with('[') && text.ends_with(']') && text.find_first_of("\"'") != text.npos;
}

/// Parses a list of paths as in a recipe.
std::vector<std::string> parse_paths(const RecipeField& field, const std::string& name,
                                     const std::string& list) {
  const std::string section = field.section;
  const auto toml =
      fmt::format("{}{} = {}\n", section.empty() ? "" : section + ".", field.key, list);
  const auto recipe = train::parse_recipe({name, toml}, Recipe{});
  return std::get<std::vector<std::string>>(train::field_value(field, recipe));
}

/// Parses the text of a value of a field. `name`: flag or key, for messages.
struct ParseValue {
  const RecipeField& field;
  const std::string& name;
  const std::string& text;

  Setting operator()(std::monostate) const {
    throw std::logic_error(std::string("no kind of model has the option ") + field.key);
  }

  template <typename T>
  Setting operator()(T*) const {
    return setting<T>(parse<T>());
  }

  /// Returns a setting for a value that is parsed.
  template <typename T>
  Setting setting(const T& value) const {
    return {
        field, name, [ref = field.ref, flag = flag_of(field.key), value](Recipe& recipe) {
          const auto target = ref(recipe);
          const auto* found = std::get_if<T*>(&target);
          if (found == nullptr) {
            throw InputError(fmt::format("a {} has no option {}", model_kind(recipe.model), flag));
          }
          **found = value;
        }};
  }

 private:
  template <typename T>
  T parse() const {
    if constexpr (std::is_same_v<T, bool>) {
      if (text == "on" || text == "true") return true;
      if (text == "off" || text == "false") return false;
      throw CLI::ValidationError(name, fmt::format("expected on or off, found '{}'", text));
    } else if constexpr (std::is_enum_v<T>) {
      return parse_choice<T>(name, text);
    } else if constexpr (std::is_arithmetic_v<T>) {
      const std::string_view zero = field.zero;
      const auto value = parse_number<T>(name, text, zero);
      if (value == T{} && !zero.empty() && text != zero) {
        throw CLI::ValidationError(
            name, fmt::format("expected a positive number or {}, found '{}'", zero, text));
      }
      return value;
    } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      return parse_list(name, text);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      const auto path = ParseValue{field, name, text}.parse<std::string>();
      return name.starts_with("--set ") && is_list(path) ? parse_paths(field, name, path)
                                                         : std::vector{path};
    } else {
      if (text.empty()) throw CLI::ValidationError(name, "must not be empty");
      check_utf8(text, name);  // a recipe is a TOML file, which contains only UTF-8
      return text;
    }
  }
};

/// Adds the flag of a field to a command. When the flag is parsed, its setting is added to `given`.
struct AddFlag {
  CLI::App& command;
  const RecipeField& field;
  std::vector<Setting>& given;

  CLI::Option* operator()(std::monostate) const {
    throw std::logic_error(std::string("no kind of model has the option ") + field.key);
  }

  template <typename T>
  CLI::Option* operator()(T*) const {
    const auto flag = flag_of(field.key);
    if constexpr (std::is_same_v<T, bool>) {
      const auto name = fmt::format("{},!--no-{}", flag, flag.substr(2));
      const auto take = [&given = given, &field = field, flag](int64_t n) {
        given.push_back(ParseValue{field, flag, ""}.setting(n > 0));
      };
      // By default, CLI11 adds up the flags: --no-bias --bias would be neither on nor an error.
      return command.add_flag_function(name, take, help_of(field))
          ->disable_flag_override()
          ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      const auto take = [&given = given, &field = field, flag](const T& paths) {
        for (const auto& path : paths)
          parse_setting(field, flag, path);  // throws for an empty path
        given.push_back(ParseValue{field, flag, ""}.setting(paths));
      };
      return command.add_option_function<T>(flag, take, help_of(field))
          ->allow_extra_args(false)
          ->type_name(field.unit);
    } else {
      const auto take = [&given = given, &field = field, flag](const std::string& text) {
        given.push_back(parse_setting(field, flag, text));
      };
      return command.add_option_function<std::string>(flag, take, help_of(field))
          ->type_name(type_name<T>());
    }
  }

 private:
  template <typename T>
  std::string type_name() const {
    if constexpr (std::is_enum_v<T>) {
      return choices<T>();
    } else if constexpr (std::is_arithmetic_v<T>) {
      return type_of_number<T>(field);
    } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      return field.unit;
    } else {
      return type_of_text(field);
    }
  }
};

/// A flag of a recipe value, and the condition under which the value has an effect.
struct Dependency {
  const char* flag;
  bool (*has_effect)(const Recipe&);
  const char* requirement;  ///< flags with which the value has an effect
};

bool reads_file(const Recipe& recipe) {
  return train::find_task(recipe.task).reads_file();
}

bool is(const Recipe& recipe, train::ProblemType type) {
  return recipe.data.problem_type == type;
}

bool has_single_labels(const Recipe& recipe) {
  return is(recipe, train::ProblemType::single_label_classification);
}

bool has_class_weights(const Recipe& recipe) {
  return has_single_labels(recipe) || is(recipe, train::ProblemType::token_classification);
}

bool smooths_labels(const Recipe& recipe) {
  return has_class_weights(recipe) || is(recipe, train::ProblemType::masked_lm);
}

bool has_several_labels(const Recipe& recipe) {
  return is(recipe, train::ProblemType::multi_label_classification);
}

bool has_adapters(const Recipe& recipe) {
  return recipe.lora.rank > 0;
}

constexpr Dependency kDependencies[]{
    {"--class-weights", has_class_weights, "--problem-type single_label_classification"},
    {"--stratify", has_single_labels, "--problem-type single_label_classification"},
    {"--label-smoothing", smooths_labels, "--problem-type single_label_classification"},
    {"--label-separator", has_several_labels, "--problem-type multi_label_classification"},
    {"--threshold", has_several_labels, "--problem-type multi_label_classification"},
    {"--lora-alpha", has_adapters, "--lora-rank"},
    {"--lora-dropout", has_adapters, "--lora-rank"},
    {"--lora-targets", has_adapters, "--lora-rank"},
    {"--lora-rslora", has_adapters, "--lora-rank"},
    {"--min-lr-ratio",
     [](const Recipe& r) { return r.training.schedule != train::ScheduleKind::constant; },
     "--schedule cosine, linear or wsd"},
    {"--cooldown-fraction",
     [](const Recipe& r) { return r.training.schedule == train::ScheduleKind::wsd; },
     "--schedule wsd"},
    {"--momentum",
     [](const Recipe& r) { return r.training.optimizer == train::OptimizerKind::muon; },
     "--optimizer muon"},
    {"--router-aux-loss-coef", [](const Recipe& r) { return r.stack().num_experts > 0; },
     "--num-experts"},
    {"--tokenizer", reads_file, "--text"},
    {"--max-text-bytes", reads_file, "--text"},
    {"--token-dir", reads_file, "--text"},
    {"--keep-carriage-returns", reads_file, "--text"},
    {"--unknown",
     [](const Recipe& r) { return reads_file(r) && r.data.tokenizer == TokenizerKind::character; },
     "--text and --tokenizer character"},
    {"--vocab-size",
     [](const Recipe& r) {
       return r.data.tokenizer == TokenizerKind::word || r.data.tokenizer == TokenizerKind::subword;
     },
     "--tokenizer word or subword"}};

/// Throws InputError for values with which training does nothing, and for flags without effect.
void check_effects(const Recipe& recipe, const RecipeFlags& flags) {
  const auto& training = recipe.training;
  if (training.lr == 0)
    throw InputError("lr is 0, with which the weights never change: expected a positive number");
  if (flags.has("--warmup-steps") && training.warmup_steps > training.max_steps) {
    throw InputError(fmt::format(
        "warmup_steps ({}) must not be greater than max_steps ({}): the learning rate would not "
        "reach lr",
        training.warmup_steps, training.max_steps));
  }
  if (flags.has("--val-fraction") && !recipe.data.val_text.empty()) {
    refuse_without_effect("--val-fraction",
                          fmt::format("beside --val-text {}, which is the validation data",
                                      train::paths_text(recipe.data.val_text)),
                          "remove one of them");
  }
  if (flags.has("--stratify") && !recipe.data.val_text.empty()) {
    refuse_without_effect("--stratify",
                          fmt::format("beside --val-text {}, which is the validation data",
                                      train::paths_text(recipe.data.val_text)),
                          "remove one of them");
  }
  for (const auto& [flag, has_effect, requirement] : kDependencies) {
    if (flags.has(flag) && !has_effect(recipe)) {
      refuse_without_effect(flag, fmt::format("without {}", requirement),
                            fmt::format("pass {}", requirement));
    }
  }
}

/// Returns the name of a recipe file without folder and extension; empty for a pipe.
std::string name_of(const std::filesystem::path& file) {
  std::error_code missing;
  return std::filesystem::is_regular_file(file, missing) ? printable(file.stem().string()) : "";
}

}  // namespace

std::optional<train::RecipeText> read_recipe_argument(const std::string& name_or_path) {
  if (name_or_path.empty()) return std::nullopt;
  const auto file = find_recipe(name_or_path);
  try {
    auto text = train::read_recipe_text(file);
    train::parse_task_of_recipe(text, {});  // throws if the file is not a recipe
    return text;
  } catch (const InputError& error) {
    std::error_code missing;
    if (file.extension() == ".toml" || !std::filesystem::is_regular_file(file, missing)) throw;
    throw InputError(
        fmt::format("{}; to train on this file, pass --text {}", error.what(), file.string()));
  }
}

std::string flag_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  return "--" + key;
}

const RecipeField& find_field(const std::string& option, const std::string& name) {
  const bool has_table = name.find('.') != std::string::npos;
  std::vector<std::string> names;
  for (const auto& field : train::recipe_fields()) {
    const bool in_table = has_table && *field.section != '\0';
    names.push_back(in_table ? fmt::format("{}.{}", field.section, field.key) : field.key);
    if (names.back() == name) return field;
  }
  throw CLI::ValidationError(
      option, fmt::format("unknown key '{}'{}", name, train::did_you_mean(name, names)));
}

std::pair<std::string, std::string> split_assignment(const std::string& option,
                                                     const std::string& text) {
  const auto at = text.find('=');
  if (at == std::string::npos)
    throw CLI::ValidationError(option, fmt::format("expected KEY=VALUE, found '{}'", text));
  return {text.substr(0, at), text.substr(at + 1)};
}

Setting parse_setting(const RecipeField& field, const std::string& name, const std::string& text) {
  return std::visit(ParseValue{field, name, text}, type_of(field));
}

RecipeFlags::RecipeFlags(CLI::App& command) : command_(&command) {
  for (const auto& field : train::recipe_fields())
    std::visit(AddFlag{command, field, given_}, type_of(field))->group(field.group);
  const auto set = [this](const std::vector<std::string>& assignments) {
    for (const auto& each : assignments) {
      const auto [key, value] = split_assignment("--set", each);
      given_.push_back(parse_setting(find_field("--set", key), "--set " + key, value));
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--set", set,
          "value for a key of the recipe, such as lr=0.001 or training.lr=0.001; may be repeated "
          "[none]")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->group("Task");
  add_number(
      command, "--max-text-bytes", max_text_bytes_, kPositive,
      "maximum size of the texts that are read into memory; larger ones are tokenized to a file "
      "in --token-dir, and larger tables are refused",
      "BYTES")
      ->group("Data");
}

RecipeFlags RecipeFlags::with(const std::vector<Setting>& more) const {
  auto flags = *this;
  flags.given_.insert(flags.given_.end(), more.begin(), more.end());
  return flags;
}

bool RecipeFlags::has(const std::string& flag) const {
  return command_->count(flag) > 0 ||
         std::any_of(given_.begin(), given_.end(),
                     [&](const Setting& each) { return flag_of(each.field.get().key) == flag; });
}

Recipe RecipeFlags::resolve(const std::optional<train::RecipeText>& file,
                            const std::optional<Recipe>& source) const {
  Recipe wanted;
  wanted.task.clear();
  if (file) wanted = train::parse_task_of_recipe(*file, wanted);
  const auto task_of_file = wanted.task;
  for (const auto& each : given_) {
    if (std::string_view(each.field.get().section).empty()) each.set(wanted);
  }
  const auto default_task = source ? source->task : wanted.text.empty() ? Recipe{}.task : "text";
  expand_patterns(wanted);
  const auto table = std::ranges::find_if(
      wanted.text, [](const auto& path) { return train::has_table_extension(path); });
  if (wanted.task.empty() && default_task == "text" && table != wanted.text.end()) {
    throw InputError(
        fmt::format("{}: found a table; pass --task labelled-lines to predict the labels of its "
                    "texts, or --task text to train on the file as one text",
                    *table));
  }
  if (wanted.task.empty() && default_task == "labelled-lines" && !wanted.text.empty() &&
      table == wanted.text.end()) {
    throw InputError(
        fmt::format("{}: found a text, expected a table ({}) as in the task of the run, '{}'; pass "
                    "--task text to train on the file as one text",
                    wanted.text.front(), train::kTableExtensions, default_task));
  }
  if (wanted.task.empty()) wanted.task = default_task;
  const auto& task = train::find_task(wanted.task);
  if (!task_of_file.empty() && task_of_file != wanted.task) {
    throw InputError(
        fmt::format("--task {} contradicts the recipe {}, whose task is '{}': remove "
                    "one of them from the command",
                    wanted.task, file->source, task_of_file));
  }
  if (!wanted.text.empty() && !task.reads_file()) {
    throw InputError(
        fmt::format("the task '{}' does not read a file: remove --text from the command, or text "
                    "from the recipe",
                    wanted.task));
  }
  Recipe recipe = source ? train::fine_tuning_recipe(*source, wanted.task) : task.defaults;
  if (!wanted.text.empty()) recipe.data.val_text.clear();  // belongs to the text of `source`
  if (file) {
    recipe = train::parse_recipe(*file, recipe);
    for (const auto& field : train::recipe_fields()) {
      const auto* dot = *field.section == '\0' ? "" : ".";
      train::check_range(field, recipe,
                         fmt::format("{}: {}{}{}", file->source, field.section, dot, field.key));
    }
    recipe.name = name_of(file->source);
  }
  recipe.task = wanted.task;
  return over(recipe);
}

Recipe RecipeFlags::over(Recipe base) const {
  std::map<std::string_view, std::string> names;  // by key
  for (const auto& each : given_) {
    const auto* key = each.field.get().key;
    const auto [found, is_new] = names.emplace(key, each.name);
    if (!is_new) {
      throw InputError(fmt::format("{} and {} both set {}: remove one of them from the command",
                                   found->second, each.name, key));
    }
  }
  base.data.max_text_bytes = max_text_bytes_;
  base.data.on_tokenized = show_tokenized;
  for (const auto& each : given_) each.set(base);
  expand_patterns(base);
  train::check_recipe(base);
  check_effects(base, *this);
  return base;
}

}  // namespace attend::app
