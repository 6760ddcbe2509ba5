#pragma once

#include "attend/train/task.h"

namespace attend::train {

/// A character-level language model of a text file: the first nine tenths are learned, the last
/// tenth is held out. A training sequence begins anywhere; the held-out part is read whole, in
/// windows that do not overlap.
class TextTask : public Task {
 public:
  /// Reads `recipe.text`. Throws InputError if it is missing, empty, not UTF-8, or either part is
  /// shorter than `recipe.context()` + 1 characters.
  explicit TextTask(const Recipe& recipe);
  /// Four layers of width 128: learns a megabyte of English in minutes on a CPU.
  static Recipe defaults();

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::string data_checksum() const override { return checksum_; }
  std::vector<Example> samples() const override { return {{prompt_, ""}}; }

 private:
  TextTask(const Recipe& recipe, const std::string& text);

  Vocabulary vocabulary_;
  int64_t context_;
  std::string checksum_;
  torch::Tensor training_;    // (N) int64
  torch::Tensor validation_;  // (M) int64
  std::string prompt_;
};

}  // namespace attend::train
