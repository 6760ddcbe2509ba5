#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/batch.h"
#include "attend/train/recipe.h"
#include "attend/train/sampler.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// A question to a model, and its answer.
struct Example {
  std::string prompt;
  std::string answer;  ///< empty if any continuation will do
};

/// Something to learn: tokens, batches to train on, and held-out ones to measure with.
/// ExampleTask and ListedTask (example_task.h) do most of it. CONTRIBUTING.md says how to add one
/// to the command.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Tokenizer& tokenizer() const = 0;
  /// The names of the classes, in the order of their numbers; empty unless the task classifies.
  virtual std::vector<std::string> classes() const { return {}; }

  /// The same state of the sampler gives the same batch.
  virtual Batch training_batch(int64_t size, Sampler& sampler) const = 0;
  /// The whole held-out part, in batches of at most `size`.
  virtual std::vector<Batch> validation_batches(int64_t size) const = 0;
  /// What tells data from other data of the same form, as a file's checksum; empty if the recipe
  /// says all of it.
  virtual std::string data_checksum() const { return {}; }

  /// Held-out examples to show what was learned by; may be empty.
  virtual std::vector<Example> samples() const { return {}; }
  /// Words whose nearest neighbours in the embedding tell what was learned; may be empty.
  virtual std::vector<std::string> probe_words() const { return {}; }
  /// Held-out texts whose last token's attention is worth a look; may be empty.
  virtual std::vector<std::string> probe_texts() const { return {}; }
};

/// A task by its name, with the recipe that trains it well on a CPU.
struct TaskInfo {
  const char* name;
  const char* summary;
  Recipe defaults;  ///< its model is of the kind that the task trains
  std::unique_ptr<Task> (*make)(const Recipe&);
  std::vector<std::string> data_keys;  ///< the values of DataConfig that it reads
  /// If it learns the file that Recipe::text names: all of another such file, in the tokens and
  /// classes that a model has learned, in batches of at most `size`, to measure it on. Throws
  /// InputError if that cannot be.
  std::vector<Batch> (*batches_of_file)(const std::filesystem::path&, const Recipe&,
                                        const Tokenizer&, const std::vector<std::string>& classes,
                                        int64_t size) = nullptr;

  bool reads_file() const { return batches_of_file != nullptr; }
};

/// All that the command knows, in the order in which it lists them.
const std::vector<TaskInfo>& tasks();

/// Throws InputError, naming the nearest known task, if there is none of that name.
const TaskInfo& find_task(const std::string& name);

/// The task that a recipe names. Throws InputError if the recipe's model is of another kind than
/// the task trains, has a value of DataConfig that the task does not read and that is not the
/// default, or does not suit the task.
std::unique_ptr<Task> make_task(const Recipe& recipe);

}  // namespace attend::train
