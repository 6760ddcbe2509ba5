#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/train/recipe.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace attend::train {

/// What `max_seq_len` does to the examples of the task `answers`.
struct ATTEND_API AnswerLengths {
  int64_t examples = 0;   ///< number of examples
  int64_t targets = 0;    ///< number of tokens of the answers, without those that are removed
  int64_t truncated = 0;  ///< examples whose last tokens are removed
  int64_t left_out = 0;   ///< examples whose prompt leaves no room for an answer
  int64_t longest = 0;    ///< number of tokens of the longest example

  /// True if all examples are complete.
  bool all_fit() const { return truncated + left_out == 0; }
  /// Adds the lengths of other examples.
  AnswerLengths& operator+=(const AnswerLengths& other);
  /// Returns the numbers of truncated examples and of those left out as text.
  std::string text(int64_t max_seq_len) const;
};

/// Returns the lengths of the examples in a table of prompts and answers or chats. Throws
/// InputError as `TaskInfo::batches_of_file` does.
///
///     const auto lengths = answer_lengths("qa.csv", run.recipe, *run.tokenizer);
///     if (!lengths.all_fit()) std::cout << lengths.text(run.recipe.max_seq_len()) << "\n";
ATTEND_API AnswerLengths answer_lengths(const std::filesystem::path& path, const Recipe& recipe,
                                        const Tokenizer& tokenizer);

}  // namespace attend::train
