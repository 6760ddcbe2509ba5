#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/task.h"

#include <filesystem>

namespace attend::train {

/// A language model of a text file, by character, byte, word or subword: its beginning is learned,
/// its end is held out. A training sequence begins anywhere; the held-out part is read whole, in
/// windows that do not overlap. Only the tokens themselves are made of the whole text.
class TextTask : public Task {
 public:
  /// Reads `recipe.text`. Throws InputError if it is missing, empty, not UTF-8, or either part is
  /// shorter than `recipe.context()` + 1 tokens.
  explicit TextTask(const Recipe& recipe);
  /// Four layers of width 128: learns a megabyte of English in minutes on a CPU.
  static Recipe defaults();
  /// All of another text, in tokens that a model has learned, in batches of at most `size` windows.
  static std::vector<Batch> batches_of_file(const std::filesystem::path& path, const Recipe& recipe,
                                            const Tokenizer& tokenizer, int64_t size);

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::string data_checksum() const override { return checksum_; }
  std::vector<Example> samples() const override { return {{prompt_, ""}}; }

 private:
  TextTask(const Recipe& recipe, const std::string& text);

  std::unique_ptr<Tokenizer> tokenizer_;
  int64_t context_;
  std::string checksum_;
  torch::Tensor training_;    // (N) int64
  torch::Tensor validation_;  // (M) int64
  std::string prompt_;
};

/// Tokens (N) in windows of `context` that do not overlap, the last one shorter, each token but the
/// first once as a target; batches of at most `size` windows. Throws InputError for less than two.
std::vector<Batch> text_windows(const torch::Tensor& tokens, int64_t context, int64_t size);

}  // namespace attend::train
