#pragma once

#include "attend/io/tokenizers.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/train/training_config.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace attend::train {

/// What the examples of a task are like; each task has defaults of its own, and uses what it needs.
struct DataConfig {
  int64_t length = 8;         ///< longest sequence of the task's own symbols, as a number's digits
  int64_t symbols = 10;       ///< how many different ones there are; the modulus of arithmetic
  double val_fraction = 0.1;  ///< share of a list or a file that is not trained on
  TokenizerKind tokenizer = TokenizerKind::character;  ///< what a token of a file is
  int64_t vocab_size = 1000;                           ///< most words, 0 = all; number of subwords
};

/// The config of a model of any kind; in a recipe its kind has the name in `model_kind`.
using ModelConfig = std::variant<LanguageModelConfig, SequenceClassifierConfig, Seq2SeqConfig>;

/// The kinds of models, in the order of `ModelConfig`.
inline constexpr std::array<std::string_view, 3> kModelKinds{"language_model",
                                                             "sequence_classifier", "seq2seq"};
static_assert(kModelKinds.size() == std::variant_size_v<ModelConfig>);

/// One of them.
std::string_view model_kind(const ModelConfig& config);

/// Everything that a run is made of: what is learned, by which model, and how.
struct Recipe {
  std::string task = "senses";  ///< name of a task
  std::string text;             ///< file that the task reads, if it reads one
  DataConfig data;
  /// Sizes of vocabularies and the number of classes are not part of it: the task gives them.
  ModelConfig model;
  TrainingConfig training;

  /// What models of all kinds have.
  StackConfig& stack();
  const StackConfig& stack() const;
  int64_t& max_seq_len();
  int64_t max_seq_len() const;
};

/// A value of a recipe that can be set by its name; nothing if its model's kind has no such value.
using FieldRef = std::variant<std::monostate, int64_t*, double*, bool*, std::string*,
                              PositionScheme*, NormKind*, NormOrder*, Activation*, RotaryScaling*,
                              QKNormKind*, BranchScaling*, Initialization*, Pooling*, Precision*,
                              OnNonFinite*, OptimizerKind*, ScheduleKind*, TokenizerKind*>;
struct RecipeField {
  const char* section;  ///< its table in the file: "", "data", "model" or "training"
  const char* key;      ///< its name there, as in embed_dim; the flag is --embed-dim
  const char* help;     ///< what it is, with its unit
  double low;           ///< least number allowed
  double high;          ///< greatest number allowed
  FieldRef (*ref)(Recipe&);
};

/// All values of a recipe, once: flags, files and help come from this table.
const std::vector<RecipeField>& recipe_fields();

/// The value of a field as text, true and false as on and off; empty if the model's kind has none.
std::string value_text(const RecipeField& field, const Recipe& recipe);

/// Reads a recipe file (TOML) over `base`. Throws InputError for a file that is missing or not
/// TOML, for a value of another type, and for an unknown key, naming the nearest known one.
Recipe read_recipe(const std::filesystem::path& path, const Recipe& base);

/// `base` with no more of a recipe file than the task that it names and the file to learn: what
/// else it may hold depends on the task. Throws InputError as `read_recipe` does.
Recipe read_task_of_recipe(const std::filesystem::path& path, const Recipe& base);

/// What a recipe file says of itself: its task, and what stands in its table `expected`.
struct RecipeCard {
  std::string task = Recipe{}.task;
  std::string summary;             ///< what is learned, in a line
  std::string device;              ///< on what the figures were reached
  double seconds = 0.0;            ///< how long training took there
  std::optional<double> val_loss;  ///< nats a target
  std::optional<double> accuracy;  ///< share of right answers, 0 to 1
};

/// Throws InputError as `read_recipe` does, and if the table is missing.
RecipeCard read_recipe_card(const std::filesystem::path& path);

/// The recipe as TOML, all values written out.
std::string to_toml(const Recipe& recipe);

/// Throws InputError, naming the value and what it should be, if a number is outside its range or
/// values of the model do not fit together.
void check_recipe(const Recipe& recipe);

}  // namespace attend::train
