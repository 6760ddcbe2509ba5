#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/train/batch.h"
#include "attend/train/recipe.h"
#include "attend/train/sampler.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// A prompt and its answer.
struct Example {
  std::string prompt;                    ///< input of the model
  std::string answer;                    ///< empty if there is no expected answer
  std::vector<std::string> labels = {};  ///< labels of a multi-label classification, or the tag of
                                         ///< each of `words`
  std::vector<std::string> words = {};   ///< token classification: the words of `prompt`
  /// Tokens of the prompt if it contains its special tokens, as a rendered chat does; empty = those
  /// of the tokenizer.
  std::vector<int64_t> prompt_tokens = {};
};

/// A line about the data of a task, such as {"classes", "neg (120), pos (80)"}.
struct DataNote {
  std::string name;  ///< label of the line
  std::string text;  ///< counts and other values
};

/// A learning task: tokenizer, training batches and validation data. `ExampleTask` and `ListedTask`
/// (example_task.h) implement most of the interface. CONTRIBUTING.md explains how to add a task to
/// the command `attend`.
class ATTEND_API Task {
 public:
  virtual ~Task() = default;

  /// The tokenizer of the data.
  virtual const Tokenizer& tokenizer() const = 0;
  /// The class or label names by index, or the name of a number; empty for other tasks.
  virtual std::vector<std::string> classes() const { return {}; }

  /// What the model predicts; all batches contain it, too.
  virtual Problem problem() const { return {}; }
  /// Weights of the classes in the training loss, (C); see `summed_loss`. Undefined by default: all
  /// are 1.
  virtual torch::Tensor class_weights() const { return {}; }

  /// Draws `size` training sequences; equal states of the sampler give equal batches.
  virtual Batch training_batch(int64_t size, Sampler& sampler) const = 0;
  /// Number of training sequences of an epoch; std::nullopt if the training data is generated.
  virtual std::optional<int64_t> num_training_sequences() const { return std::nullopt; }
  /// Returns all validation data in batches of at most `size` rows.
  virtual std::vector<Batch> validation_batches(int64_t size) const = 0;
  /// Checksum of the data, e.g. of a text file; empty if the data depends only on the recipe.
  virtual std::string data_checksum() const { return {}; }

  /// Lines about the data for the user, shown before training; may be empty.
  virtual std::vector<DataNote> data_notes() const { return {}; }

  /// Validation examples that show what the model learned; may be empty.
  virtual std::vector<Example> samples() const { return {}; }
  /// Words whose nearest neighbors in the embedding are worth showing; may be empty.
  virtual std::vector<std::string> probe_words() const { return {}; }
  /// Validation texts for which the attention weights of the last token are worth showing; may be
  /// empty.
  virtual std::vector<std::string> probe_texts() const { return {}; }
};

/// A registered task.
struct ATTEND_API TaskInfo {
  const char* name;     ///< as in recipes and flags
  const char* summary;  ///< prediction of the model, in one line
  Recipe defaults;      ///< recipe that trains a good model on a CPU
  /// Makes the task; see `make_task`.
  std::unique_ptr<Task> (*make)(const Recipe&, std::shared_ptr<const Tokenizer>);
  std::vector<std::string> data_keys;  ///< fields of `DataConfig` that the task reads
  /// Returns all data of a file in batches of at most `size` rows, to evaluate a trained model on a
  /// file other than its training data. The data is encoded with the tokenizer and the classes of
  /// the model. Throws InputError if the file contains tokens or classes that the model does not
  /// know. The pointer is null unless the task reads `Recipe::text`.
  std::vector<Batch> (*batches_of_file)(const std::filesystem::path&, const Recipe&,
                                        const Tokenizer&, const std::vector<std::string>& classes,
                                        int64_t size) = nullptr;
  const char* eos_token = "";  ///< last token of each answer of a LanguageModel, where generation
                               ///< stops; empty if the answers have no such token
  /// For answers without `eos_token`: true if a text of prompt and generated tokens ends with an
  /// answer, where generation stops. Null if the task has `eos_token` or no answers.
  bool (*ends_with_answer)(const std::string& text) = nullptr;

  /// True if the task reads `Recipe::text`.
  bool reads_file() const { return batches_of_file != nullptr; }
};

/// All registered tasks, in the order in which `attend tasks` lists them.
ATTEND_API const std::vector<TaskInfo>& tasks();

/// Returns the task with this name. Throws InputError if no task has this name; the message
/// suggests the nearest name.
ATTEND_API const TaskInfo& find_task(const std::string& name);

/// Makes the task of a recipe. `tokenizer`: tokenizer of a run; a task that reads a file uses it
/// instead of making a new one. Throws InputError if the tokenizer cannot encode the file, if the
/// task is unknown, if the kind of model is not the one that the task requires, or if a value is
/// out of the task's range. Also throws InputError if the recipe sets a value that the task does
/// not read: `Recipe::text`, or a field of `DataConfig` that differs from the task's default.
ATTEND_API std::unique_ptr<Task> make_task(const Recipe& recipe,
                                           std::shared_ptr<const Tokenizer> tokenizer = nullptr);

/// Function that makes the task of a recipe with a tokenizer, as `make_task` does. It may return a
/// task that was already made for the same data and tokenizer, so that large files are read and
/// encoded only once.
using TaskMaker = std::function<std::shared_ptr<const Task>(
    const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)>;

}  // namespace attend::train
