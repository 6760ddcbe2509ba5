#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/recipe.h"
#include "attend/train/sampler.h"
#include "train/tokenize_texts.h"

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// Tokens of the texts of files.
struct TextTokens {
  torch::Tensor ids;  ///< (N), see `token_dtype`; in memory or in a mapped file
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string checksum;   ///< of the texts
  int64_t num_bytes = 0;  ///< size of the texts
  std::string note = {};  ///< about the token file; empty if the tokens are in memory

  /// Returns the tokens at `index` as int64, in its shape. Throws InputError for an id that the
  /// tokenizer does not have: a token file may be damaged, and checking all of it takes long.
  torch::Tensor at(const torch::Tensor& index) const;
  /// Returns `count` windows of `length` successive tokens at random places, (count, length) int64.
  torch::Tensor random_windows(int64_t count, int64_t length, Sampler& sampler) const;
};

/// Returns the tokens of texts. Texts of more than `data.max_text_bytes` bytes are tokenized to a
/// file in `data.token_dir`, which is used again for the same texts and tokenizer; a text has
/// changed if its size or time of modification has. Several processes may call this function for
/// the same texts: one of them writes the file, and the others wait.
///
/// If `tokenizer` is null, makes one from the texts: from all of them if they are in memory or the
/// tokens are characters, from a sample of `kTokenizerSampleBytes` bytes otherwise. Throws
/// InputError like `tokenize_texts`, and if `use` requires a mask token that the tokenizer does not
/// have; std::runtime_error if the file cannot be written.
TextTokens tokens_of_texts(const std::vector<std::string>& paths, const DataConfig& data,
                           std::shared_ptr<const Tokenizer> tokenizer, const TextUse& use);

/// Size of the sample of a text larger than memory from which a word or subword tokenizer is made.
inline constexpr std::size_t kTokenizerSampleBytes = std::size_t{32} << 20;

}  // namespace attend::train
