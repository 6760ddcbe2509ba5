#pragma once

#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"

namespace attend::train {

/// A question answering task for a LanguageModel whose tokens are characters. For example, the
/// question "cab=" is followed by the answer "abc.". A subclass overrides `draw`.
class QuestionTask : public ExampleTask {
 public:
  /// `characters` is the alphabet. A question and its answer together have at most `max_length`
  /// tokens. Throws InputError if the recipe's max_seq_len is smaller than `max_length`.
  QuestionTask(const Recipe& recipe, const std::string& characters, int64_t max_length);

  const Vocabulary& tokenizer() const override { return vocabulary_; }

 protected:
  Batch rows(const std::vector<Example>& examples) const override;

 private:
  Vocabulary vocabulary_;
  int64_t max_length_;
};

/// Returns the first `count` lowercase letters. Throws InputError if count > 26.
std::string first_letters(int64_t count);

/// Base recipe of question answering tasks: two layers of width 64.
Recipe question_recipe();

}  // namespace attend::train
