#pragma once

#include "attend/api.h"
#include "attend/io/tokenizers.h"
#include "attend/models/model.h"
#include "attend/train/training_config.h"

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attend::train {

/// Side of a text from which tokens are removed if the text has more than max_seq_len tokens.
enum class TruncationSide {
  right,  ///< the last tokens are removed
  left,   ///< the first tokens are removed
};

}  // namespace attend::train

namespace attend {

/// Names of `train::TruncationSide`.
template <>
struct EnumNames<train::TruncationSide> {
  static constexpr std::array<std::string_view, 2> names{"right", "left"};
};

}  // namespace attend

namespace attend::train {

/// Options of a task's data. Each task has its own defaults and reads only the options that it
/// needs.
struct DataConfig {
  int64_t length = 8;         ///< maximum number of symbols in a sequence, such as digits
  int64_t symbols = 10;       ///< number of different symbols; in the task modular-arithmetic, the
                              ///< modulus
  double val_fraction = 0.1;  ///< fraction of the data used for validation; ignored if `val_text`
                              ///< is not empty
  std::vector<std::string> val_text;  ///< paths of files of validation data, in the format of
                                      ///< `Recipe::text`; empty = a fraction of `Recipe::text`
  TokenizerKind tokenizer = TokenizerKind::character;  ///< tokenizer of tasks that read a file
  int64_t vocab_size = 1000;  ///< word tokenizer: maximum number of tokens, 0 = no limit; subword
                              ///< tokenizer: number of tokens
  UnknownCharacters unknown = UnknownCharacters::error;  ///< character tokenizer: encoding of
                                                         ///< characters not in the vocabulary
  std::string text_column = "text";                      ///< table: name of the column of texts
  std::string label_column = "label";                    ///< table: name of the column of labels
  TruncationSide truncate = TruncationSide::right;       ///< table: side from which tokens of texts
                                                         ///< longer than max_seq_len are removed
  int64_t max_text_bytes = int64_t{1} << 30;  ///< maximum size of each file that a task reads, in
                                              ///< bytes; not a key of recipe files
};

/// Configuration of a run: task, data, model and training. The vocabulary sizes and the number of
/// classes in the model's config are ignored: the task determines them. `data.vocab_size` sets
/// the vocabulary size of a subword tokenizer, and limits that of a word tokenizer.
struct ATTEND_API Recipe {
  std::string task = "senses";    ///< name of a task, see `tasks()`
  std::vector<std::string> text;  ///< paths of the files to train on, for tasks that read files
  DataConfig data;                ///< options of the task's data
  ModelConfig model;              ///< sizes and options of the model
  TrainingConfig training;        ///< optimizer, schedule, evaluation
  std::string name = {};          ///< name of the recipe that the user chose, such as "sort"; empty
                                  ///< if there is none; not part of the file

  /// The options of the model's transformer stack.
  StackConfig& stack();
  /// The options of the model's transformer stack.
  const StackConfig& stack() const;
  /// Maximum sequence length of the model, in tokens.
  int64_t& max_seq_len();
  /// Maximum sequence length of the model, in tokens.
  int64_t max_seq_len() const;
};

/// Reads a recipe file (TOML). Values not set in the file are taken from `base`. There is one
/// exception: if `model.kind` in the file is not the kind of the model in `base`, only the stack
/// options and `max_seq_len` of the model are taken from `base`. The other options of the model
/// then have their defaults. Throws InputError if the file is missing or not TOML, if a value has
/// the wrong type or is an unknown name, or if a key is unknown (the message suggests the nearest
/// known key). Also throws InputError for an option that the kind of model does not have.
ATTEND_API Recipe read_recipe(const std::filesystem::path& path, const Recipe& base);

/// Returns the recipe as TOML with all values.
ATTEND_API std::string to_toml(const Recipe& recipe);

/// Returns a training configuration and further values as TOML: the tables `training` and `values`.
ATTEND_API std::string to_toml(const TrainingConfig& config,
                               const std::map<std::string, std::string>& values);

/// Configuration of a run that trains a custom module.
struct CustomConfig {
  TrainingConfig training;                    ///< training configuration
  std::map<std::string, std::string> values;  ///< `TrainingRunOptions::values`
};

/// Reads a file with the output of `to_toml(config, values)`. Throws InputError in the same cases
/// as `read_recipe`.
ATTEND_API CustomConfig read_custom_config(const std::filesystem::path& path);

/// The text of a recipe file. The functions below read it several times, which is impossible for a
/// pipe.
struct RecipeText {
  std::string source;  ///< path of the file, for messages
  std::string toml;    ///< content of the file
};

/// Reads a recipe file or a pipe. Throws InputError if it is missing, larger than 16 MiB, empty or
/// not UTF-8.
ATTEND_API RecipeText read_recipe_text(const std::filesystem::path& path);

/// Parses a recipe, as `read_recipe` does for a file.
ATTEND_API Recipe parse_recipe(const RecipeText& text, const Recipe& base);

/// Parses only `task` and `text` of a recipe; the other values are taken from `base`. Used before
/// `parse_recipe`, since the task determines the `base` of `parse_recipe`. Throws InputError if the
/// text is not TOML, for an unknown key, if `task` is not a string, and if `text` is neither a
/// string nor a list of strings.
///
///     const auto file = read_recipe_text("models/sort.toml");
///     const auto task = parse_task_of_recipe(file, {}).task;
///     const auto recipe = parse_recipe(file, find_task(task).defaults);
ATTEND_API Recipe parse_task_of_recipe(const RecipeText& text, const Recipe& base);

/// The task of a recipe file, and the expected results from the file's table `expected`.
struct RecipeCard {
  std::string task = Recipe{}.task;    ///< name of the task
  std::string summary;                 ///< one line about the task
  std::string device;                  ///< hardware on which the values below were measured
  double seconds = 0.0;                ///< training time in seconds
  std::optional<double> val_loss;      ///< validation loss, mean over the targets
  std::optional<double> val_accuracy;  ///< fraction of exact matches, 0 to 1
};

/// Reads the task and the expected results of a recipe file. Throws InputError if the file is
/// missing or not TOML, if it has an unknown key or no table `expected`, or if `task` or a value in
/// `expected` has the wrong type. Does not check the values of the other tables.
ATTEND_API RecipeCard read_recipe_card(const std::filesystem::path& path);

/// Throws InputError if a number is out of range (the message contains key, value and range), or if
/// values of the transformer stack contradict each other. `make_model` checks the other values of
/// the model.
ATTEND_API void check_recipe(const Recipe& recipe);

/// Throws InputError if a number in `config` is out of range; the message contains key, value and
/// range.
ATTEND_API void check_training_config(const TrainingConfig& config);

/// Makes the model that a recipe describes, with new weights. `vocab_size` is the number of tokens
/// in the vocabulary. `num_classes` is the number of classes; only a classifier uses it. Throws
/// InputError if values of the recipe's model contradict each other, for example if `embed_dim` is
/// not divisible by `num_heads`; the message names the recipe's keys of these values.
///
///     auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
ATTEND_API Model make_model(const Recipe& recipe, int64_t vocab_size, std::size_t num_classes = 0);

}  // namespace attend::train
