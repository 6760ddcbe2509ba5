// Reads and writes recipe files.
#include "attend/train/recipe.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/nearest_name.h"
#include "attend/train/recipe_fields.h"
#include "io/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace attend::train {
namespace {

constexpr const char* kKindKey = "model.kind";
constexpr const char* kCard = "expected";  // table of `RecipeCard`
constexpr const char* kValues = "values";  // table of `CustomConfig::values`
constexpr SizeLimit kLimit{std::size_t{16} << 20};
constexpr std::array kTables{"data", "model", "lora", "training", kCard};
constexpr std::array kCardKeys{"summary", "device", "seconds", "val_loss", "val_accuracy"};

std::string full_key(const RecipeField& field) {
  return field.section[0] == '\0' ? field.key : fmt::format("{}.{}", field.section, field.key);
}

/// Assigns a TOML value to a target. Throws InputError if the value has another type than the
/// target, if it is an unknown name for an enum, or if the target is monostate. A floating-point
/// target also accepts an integer.
struct Assign {
  const toml::node& node;
  const std::string& where;    ///< file and key, for messages
  std::string_view kind = {};  ///< kind of model, for messages
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
    // Functions of the operating system read a path only up to the first NUL.
    if (value->find('\0') != std::string::npos) {
      throw InputError(
          fmt::format("{}: expected a string without NUL, found '{}'", where, printable(*value)));
    }
    *target = *value;
  }
  void operator()(std::vector<std::string>* target) const {
    const auto* array = node.as_array();
    const bool strings =
        array != nullptr && (array->empty() || array->is_homogeneous<std::string>());
    expect(strings || node.is_string(), "a string or a list of strings");
    target->clear();
    const auto add = [&](const toml::node& path) { Assign{path, where}(&target->emplace_back()); };
    if (strings) {
      for (const auto& element : *array) add(element);
    } else if (node.value<std::string>() != "") {  // no file is written as ""
      add(node);
    }
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
void check_keys(const toml::table& table, const std::string& prefix, const std::string& file) {
  std::vector<std::string> known{kKindKey};
  for (const auto& field : recipe_fields()) known.push_back(full_key(field));
  for (const auto* key : kCardKeys) known.push_back(fmt::format("{}.{}", kCard, key));
  for (const auto& [key, node] : table) {
    const auto name = prefix + std::string(key.str());
    const bool is_table = node.is_table() && prefix.empty();
    if (is_table && std::find(kTables.begin(), kTables.end(), name) != kTables.end()) {
      check_keys(*node.as_table(), name + ".", file);
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

RecipeText read_regular_file(const std::filesystem::path& path) {
  return {path.string(), read_text(path, kLimit)};
}

/// Parses a TOML file. Throws InputError if it is not TOML.
toml::table parse_toml(const RecipeText& text) {
  const auto& file = text.source;
  try {
    return toml::parse(text.toml, file);
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << error.source().begin;
    // The description may end with the name of a macro, "(TOML_MAX_NESTED_VALUES)".
    const auto description = error.description().substr(0, error.description().find(" (TOML_"));
    throw InputError(fmt::format("{}: invalid TOML: {} ({})", file, description, where.str()));
  }
}

/// Parses a recipe file. Also throws InputError if it has a key or a table that recipe files do not
/// have.
toml::table parse_table(const RecipeText& text) {
  auto table = parse_toml(text);
  check_keys(table, "", text.source);
  return table;
}

void assign(const toml::node& node, const std::string& where, FieldRef target) {
  std::visit(Assign{node, where}, target);
}

/// Sets a field of `recipe` if `table` has a value for the field. An integer field also accepts the
/// name `RecipeField::zero` for the number 0.
void assign_field(const RecipeField& field, const toml::table& table, const std::string& file,
                  Recipe& recipe) {
  const auto key = full_key(field);
  const auto node = table.at_path(key);
  if (!node) return;
  const auto where = fmt::format("{}: {}", file, key);
  std::visit(Assign{*node.node(), where, model_kind(recipe.model), field.zero}, field.ref(recipe));
}

/// Inserts the value of a field in its section of `table`.
void insert_field(const RecipeField& field, const Recipe& recipe, toml::table& table) {
  auto& section = field.section[0] == '\0'
                      ? table
                      : *table.insert(field.section, toml::table{}).first->second.as_table();
  const auto insert = [&](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    constexpr bool are_paths = std::is_same_v<T, std::vector<std::string>>;
    if constexpr (are_paths || std::is_same_v<T, std::vector<int64_t>>) {
      toml::array array;
      for (const auto& element : value) array.push_back(element);
      if (are_paths && array.size() <= 1)
        section.insert(field.key, array.empty() ? std::string() : *array[0].value<std::string>());
      else
        section.insert(field.key, std::move(array));
    } else if constexpr (!std::is_same_v<T, std::monostate>) {
      section.insert(field.key, value);
    }
  };
  std::visit(insert, field_value(field, recipe));
}

/// Returns the shortest TOML float that reads back to the same number: "0.1", "1.0", "1e-05".
/// toml++ would print 17 digits.
std::string to_text(double number) {
  const auto text = fmt::format("{}", number);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;  // "1" would be an integer
}

/// Returns the lines of a table, without its tables.
std::string lines_of(const toml::table& table) {
  std::ostringstream lines;
  for (const auto& [key, node] : table) {
    if (const auto* number = node.as_floating_point()) {
      lines << key.str() << " = " << to_text(number->get()) << "\n";
    } else if (!node.is_table()) {
      toml::table line;
      line.insert(key, node);
      lines << line << "\n";
    }
  }
  return lines.str();
}

std::string to_text(const toml::table& table) {
  auto text = lines_of(table);
  for (const auto& [key, node] : table) {
    if (!node.is_table()) continue;
    text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", std::string_view(key.str()),
                        lines_of(*node.as_table()));
  }
  return text;
}

/// Changes the recipe's kind of model to the kind in the file, if the file contains a kind. Keeps
/// the values that all kinds of models have.
void choose_kind(const toml::table& table, const std::string& file, Recipe& recipe) {
  const auto node = table.at_path(kKindKey);
  if (!node) return;
  const auto name = node.value_exact<std::string>().value_or("");
  if (name == model_kind(recipe.model)) return;
  for (const auto& config :
       {ModelConfig(LanguageModelConfig()), ModelConfig(SequenceClassifierConfig()),
        ModelConfig(Seq2SeqConfig())}) {
    if (name != model_kind(config)) continue;
    const auto previous = recipe;
    recipe.model = config;
    recipe.stack() = previous.stack();
    recipe.max_seq_len() = previous.max_seq_len();
    return;
  }
  throw InputError(fmt::format("{}: {}: expected one of {}, found '{}'", file, kKindKey,
                               fmt::join(kModelKinds, ", "), name));
}

}  // namespace

LoraOptions LoraConfig::options() const {
  LoraOptions options{
      .rank = rank, .alpha = alpha, .dropout = dropout, .targets = {}, .rslora = rslora};
  std::istringstream names(targets + ",");  // an empty name at the end is a target, too
  for (std::string name; std::getline(names, name, ',');) options.targets.push_back(name);
  return options;
}

StackConfig& Recipe::stack() {
  return std::visit([](auto& config) -> StackConfig& { return config.stack; }, model);
}

const StackConfig& Recipe::stack() const {
  return std::visit([](const auto& config) -> const StackConfig& { return config.stack; }, model);
}

int64_t& Recipe::max_seq_len() {
  return std::visit([](auto& config) -> int64_t& { return config.max_seq_len; }, model);
}

int64_t Recipe::max_seq_len() const {
  return std::visit([](const auto& config) { return config.max_seq_len; }, model);
}

std::string with_line_breaks(std::string text, const DataConfig& data) {
  const auto first = data.keep_carriage_returns ? text.npos : text.find("\r\n");
  if (first == text.npos) return text;
  auto to = text.begin() + static_cast<std::ptrdiff_t>(first);
  for (auto from = to; from != text.end(); ++from) {
    if (*from == '\r' && from + 1 != text.end() && from[1] == '\n') continue;
    *to++ = *from;
  }
  text.erase(to, text.end());
  return text;
}

RecipeText read_recipe_text(const std::filesystem::path& path) {
  return {path.string(), read_text_or_pipe(path, kLimit)};
}

Recipe parse_recipe(const RecipeText& text, const Recipe& base) {
  const auto table = parse_table(text);
  Recipe recipe = base;
  choose_kind(table, text.source, recipe);
  for (const auto& field : recipe_fields()) assign_field(field, table, text.source, recipe);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path, const Recipe& base) {
  return parse_recipe(read_regular_file(path), base);
}

Recipe parse_task_of_recipe(const RecipeText& text, const Recipe& base) {
  const auto table = parse_table(text);
  Recipe recipe = base;
  for (const auto& field : recipe_fields()) {
    if (field.section[0] == '\0') assign_field(field, table, text.source, recipe);
  }
  return recipe;
}

CustomConfig read_custom_config(const std::filesystem::path& path) {
  auto table = parse_toml(read_regular_file(path));
  CustomConfig config;
  if (const auto* values = table[kValues].as_table()) {
    for (const auto& [key, value] : *values) {
      const auto name = std::string(key.str());
      assign(value, fmt::format("{}: {}.{}", path.string(), kValues, name), &config.values[name]);
    }
    table.erase(kValues);
  }
  check_keys(table, "", path.string());
  Recipe recipe;
  for (const auto& field : recipe_fields()) assign_field(field, table, path.string(), recipe);
  config.training = recipe.training;
  return config;
}

std::string to_toml(const Recipe& recipe) {
  toml::table table;
  table.insert("model", toml::table{{"kind", std::string(model_kind(recipe.model))}});
  for (const auto& field : recipe_fields()) insert_field(field, recipe, table);
  return to_text(table);
}

std::string to_toml(const TrainingConfig& config,
                    const std::map<std::string, std::string>& values) {
  Recipe recipe;
  recipe.training = config;
  toml::table table;
  for (const auto& field : recipe_fields()) {
    if (std::string_view(field.section) == "training") insert_field(field, recipe, table);
  }
  auto& described = *table.insert(kValues, toml::table{}).first->second.as_table();
  for (const auto& [key, value] : values) described.insert(key, value);
  return to_text(table);
}

RecipeCard read_recipe_card(const std::filesystem::path& path) {
  const auto table = parse_table(read_regular_file(path));
  if (!table.contains(kCard)) {
    throw InputError(fmt::format("{}: the table [{}] is missing", path.string(), kCard));
  }
  RecipeCard card;
  const auto read_at = [&](const std::string& name, auto& target) {
    if (const auto node = table.at_path(name)) {
      assign(*node.node(), fmt::format("{}: {}", path.string(), name), &target);
    }
  };
  const auto read = [&](const char* key, auto& target) {
    read_at(fmt::format("{}.{}", kCard, key), target);
  };
  const auto read_optional = [&](const char* key, std::optional<double>& target) {
    double value = NAN;
    read(key, value);
    if (!std::isnan(value)) target = value;
  };
  read_at("task", card.task);
  read("summary", card.summary);
  read("device", card.device);
  read("seconds", card.seconds);
  read_optional("val_loss", card.val_loss);
  read_optional("val_accuracy", card.val_accuracy);
  return card;
}

}  // namespace attend::train
