#pragma once

#include "attend/io/vocabulary.h"
#include "attend/train/recipe.h"

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// A target that counts for nothing, as padding does.
inline constexpr int64_t kIgnored = -100;

/// Sequences and what should follow each of their tokens.
struct Batch {
  torch::Tensor tokens;   ///< (B, T) int64
  torch::Tensor targets;  ///< (B, T) int64, or kIgnored
  torch::Tensor answers;  ///< (B, T) bool: targets that accuracy counts; undefined if the task has
                          ///< no notion of a right answer
};

/// Something to learn: a vocabulary, batches to train on, and held-out ones to measure with.
/// To add one: derive from this in a file of its own and give it a line in tasks() (task.cpp).
class Task {
 public:
  virtual ~Task() = default;

  virtual const Vocabulary& vocabulary() const = 0;
  /// The same generator state gives the same batch.
  virtual Batch training_batch(int64_t size, torch::Generator& generator) const = 0;
  /// The whole held-out part, in batches of at most `size`.
  virtual std::vector<Batch> validation_batches(int64_t size) const = 0;

  /// Words whose nearest neighbours in the embedding tell what was learned; may be empty.
  virtual std::vector<std::string> probe_words() const { return {}; }
  /// Held-out texts whose last token's attention is worth a look; may be empty.
  virtual std::vector<std::string> probe_texts() const { return {}; }
  /// A text to continue after training; empty if that shows nothing.
  virtual std::string prompt() const { return {}; }
};

/// A task by its name, with the recipe that trains it well on a CPU.
struct TaskInfo {
  const char* name;
  const char* summary;
  bool reads_text;  ///< whether it learns the file that Recipe::text names
  Recipe defaults;
  std::unique_ptr<Task> (*make)(const Recipe&);
};

const std::vector<TaskInfo>& tasks();

/// Throws InputError, naming the nearest known task, if there is none of that name.
const TaskInfo& find_task(const std::string& name);

}  // namespace attend::train
