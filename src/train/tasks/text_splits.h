#pragma once

#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "train/text_tokens.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// The tokens of the texts of a recipe.
struct TextSplits {
  TextTokens training;
  TextTokens validation;  ///< of files of their own, or else the last tokens of the texts
  std::string checksum;
  std::vector<DataNote> notes;
};

/// Reads `recipe.text` and `recipe.data.val_text`. `tokenizer`: null = made from the training
/// texts. Throws InputError like `tokens_of_texts`, and if a file is a table or one of the two
/// parts has fewer tokens than `min_training` or `min_validation`.
TextSplits read_text_splits(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                            int64_t min_training, int64_t min_validation, bool masking = false);

/// Returns the tokens of a text that a model with `tokenizer` reads. Throws InputError as above.
TextTokens read_text_of_run(const std::string& path, const Recipe& recipe,
                            const Tokenizer& tokenizer, bool masking = false);

}  // namespace attend::train
