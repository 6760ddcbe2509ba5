#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/task.h"

#include <vector>

namespace attend::train {

/// Examples as rows of a batch for each kind of model. Rows shorter than `length` are padded with
/// the token `padding` at the end. Throws InputError, naming the example, if one is longer, or is
/// made of other tokens than `tokenizer` has.
struct RowLayout {
  const Tokenizer& tokenizer;
  int64_t padding;   ///< the number of a token
  int64_t length;    ///< of each row; of a Seq2Seq, of its source and of its target
  bool cut = false;  ///< what is longer is cut off at its end, not refused; for prompts of a class
};

/// For a LanguageModel: the prompt and right after it the answer, whose tokens are the targets.
Batch continuation_rows(const std::vector<Example>& examples, const RowLayout& layout);

/// For a SequenceClassifier: the prompt, and the number of the answer among `classes`.
Batch classification_rows(const std::vector<Example>& examples, const RowLayout& layout,
                          const std::vector<std::string>& classes);

/// For a Seq2Seq: the prompt as the source; the decoder reads the token `begin` and the answer, and
/// has the answer and the token `end` as its targets.
Batch translation_rows(const std::vector<Example>& examples, const RowLayout& layout, int64_t begin,
                       int64_t end);

}  // namespace attend::train
