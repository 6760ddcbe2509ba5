#pragma once

#include "attend/io/vocabulary.h"
#include "attend/train/task.h"

namespace attend::train {

/// Sentences in which one of eight words (bank, bat, spring, crane, match, bark, seal, palm) means
/// one of two things that only the words around it tell:
///
///     the old boat drifted near the bank . bank   ->   bank=shore
///     the old clerk paid near the bank . bank     ->   bank=money
///
/// The model predicts each next token and, after the full stop and the word itself, its sense.
/// Whoever does not look at the other tokens cannot be right more often than every second time:
/// both senses of each word are equally frequent. Held-out sentences are never trained on.
/// The sentences are the same for each seed of a recipe.
class SensesTask : public Task {
 public:
  explicit SensesTask(const Recipe& recipe);
  /// One layer of width 64: learns the senses in seconds on a CPU.
  static Recipe defaults();

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<std::string> probe_words() const override;
  std::vector<std::string> probe_texts() const override;

 private:
  Vocabulary vocabulary_;
  Batch training_;
  Batch validation_;
  std::vector<std::string> probes_;
};

}  // namespace attend::train
