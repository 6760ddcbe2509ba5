#pragma once

#include "attend/api.h"
#include "attend/io/tokenizers.h"
#include "attend/models/model.h"
#include "attend/nn/lora.h"
#include "attend/train/problem.h"
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
  std::string text_column = "text";                      ///< table: name of the column of texts or
                                                         ///< words
  std::string label_column = "label";                    ///< table: name of the column of labels or
                                                         ///< tags
  std::string prompt_column = "prompt";                  ///< table: name of the column of prompts
  std::string answer_column = "answer";                  ///< table: name of the column of answers
  std::string messages_column;  ///< .jsonl: name of the column of chats, lists of messages; empty =
                                ///< the file has columns of prompts and answers
  ProblemType problem_type = {};                    ///< table: what the labels are; see `Problem`
  std::string label_separator = ",";                ///< table, multi-label: text between two labels
  double threshold = 0.5;                           ///< table, multi-label: see `Problem`
  TruncationSide truncate = TruncationSide::right;  ///< table: side from which tokens of texts
                                                    ///< longer than max_seq_len are removed
  std::string class_weights = "none";  ///< table: weights of the classes in the training loss; see
                                       ///< `class_weights`
  bool stratify = true;                ///< table: split each class in the same ratio into training
                                       ///< and validation data
  double mask_probability = 0.15;      ///< masked-lm: fraction of the tokens that are predicted
  bool keep_carriage_returns = false;  ///< keep the line breaks CR LF of texts instead of
                                       ///< reading them as LF
  std::string token_dir;  ///< directory of the token files of texts larger than `max_text_bytes`;
                          ///< empty = `default_token_dir()`
  int64_t max_text_bytes = int64_t{1} << 30;  ///< maximum size of the texts that are read into
                                              ///< memory, and of each table, in bytes; larger texts
                                              ///< are tokenized to a file, larger tables are
                                              ///< refused; not a key of recipe files
  /// Called while texts are tokenized, with the number of bytes that are tokenized and the number
  /// of all bytes; not a key of recipe files.
  void (*on_tokenized)(int64_t done, int64_t count) = nullptr;
};

/// Returns what the labels of a task say about the predictions of its model.
inline Problem problem_of(const DataConfig& data) {
  return {.type = data.problem_type, .threshold = data.threshold};
}

/// Returns a text as the tasks that read files see it: with LF in place of CR LF, unless
/// `data.keep_carriage_returns` is set.
///
///     with_line_breaks("a\r\nb", DataConfig{}) == "a\nb";
ATTEND_API std::string with_line_breaks(std::string text, const DataConfig& data);

/// Returns the directory of token files if `DataConfig::token_dir` is empty: attend/tokens in
/// $XDG_CACHE_HOME or, if it is not set, in ~/.cache. Throws InputError if $HOME is not set either.
ATTEND_API std::filesystem::path default_token_dir();

/// Options of low-rank adapters; see `LoraOptions`.
struct ATTEND_API LoraConfig {
  int64_t rank = 0;      ///< rank of the adapters; 0 = none: all weights are trained
  double alpha = 16.0;   ///< the product of an adapter is multiplied by alpha / rank
  double dropout = 0.0;  ///< dropout probability of the input of the adapters
  std::string targets = "qkv,out,feed_forward";  ///< `LoraOptions::targets`, separated by commas
  bool rslora = false;                           ///< multiply by alpha / sqrt(rank) instead

  /// The options for `add_lora`.
  LoraOptions options() const;
};

/// Configuration of a run: task, data, model and training. The vocabulary sizes and the number of
/// classes in the model's config are ignored: the task determines them. `data.vocab_size` sets
/// the vocabulary size of a subword tokenizer, and limits that of a word tokenizer.
struct ATTEND_API Recipe {
  std::string task = "senses";    ///< name of a task, see `tasks()`
  std::vector<std::string> text;  ///< paths of the files to train on, for tasks that read files
  DataConfig data;                ///< options of the task's data
  ModelConfig model;              ///< sizes and options of the model
  LoraConfig lora;                ///< low-rank adapters; requires initial weights of another run
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
