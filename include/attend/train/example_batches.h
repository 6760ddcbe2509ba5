#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/train/task.h"

#include <optional>
#include <vector>

namespace attend::train {

/// Layout of examples as rows of a batch. Rows with fewer than `length` tokens are padded at the
/// end. The functions below throw InputError if an example does not fit in a row (the message
/// quotes the example) or has tokens that are not in the vocabulary.
struct RowLayout {
  const Tokenizer& tokenizer;  ///< encodes prompts and answers
  int64_t padding;             ///< id of the padding token
  int64_t length;              ///< length of each row; a Seq2Seq has source rows and target rows of
                               ///< this length
  std::optional<TruncationSide> truncate = {};  ///< truncate longer texts instead of throwing;
                                                ///< ignored by `continuation_rows`
};

/// Returns at most `length` tokens: removes tokens from the given side.
///
///     truncated({1, 2, 3}, 2, TruncationSide::left) == std::vector<int64_t>{2, 3};
ATTEND_API std::vector<int64_t> truncated(std::vector<int64_t> tokens, int64_t length,
                                          TruncationSide side);

/// Returns a batch for a LanguageModel. Each row is a prompt followed by its answer. The tokens of
/// the answer are the targets. The last token of the answer is only a target, so a prompt and its
/// answer may together have up to length + 1 tokens. Also throws InputError if a prompt is empty.
ATTEND_API Batch continuation_rows(const std::vector<Example>& examples, const RowLayout& layout);

/// Returns a batch for a SequenceClassifier. Each row is a prompt. The target is the index of the
/// answer in `classes`. Also throws InputError if an answer is not in `classes`.
ATTEND_API Batch classification_rows(const std::vector<Example>& examples, const RowLayout& layout,
                                     const std::vector<std::string>& classes);

/// Returns a batch for a Seq2Seq. Source: the prompt. Decoder input: `bos_token`, then the answer.
/// Targets: the answer, then `eos_token`. An answer may have at most length - 1 tokens.
ATTEND_API Batch translation_rows(const std::vector<Example>& examples, const RowLayout& layout,
                                  int64_t bos_token, int64_t eos_token);

}  // namespace attend::train
