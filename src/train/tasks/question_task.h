#pragma once

#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"

namespace attend::train {

/// A task of questions and answers in characters, for a LanguageModel: "cab=" and then "abc.".
/// To make one: `draw`.
class QuestionTask : public ExampleTask {
 public:
  /// `characters`: all that occur. `longest`: most tokens of a question with its answer. Throws
  /// InputError if the recipe's context is too short for it.
  QuestionTask(const Recipe& recipe, const std::string& characters, int64_t longest);

  const Vocabulary& tokenizer() const override { return vocabulary_; }

 protected:
  Batch rows(const std::vector<Example>& examples) const override;

 private:
  Vocabulary vocabulary_;
  int64_t longest_;
};

/// The first `count` small letters. Throws InputError, naming `symbols`, if there are not so many.
std::string first_letters(int64_t count);

/// What the recipes of these tasks start from: two layers of width 64.
Recipe question_recipe();

}  // namespace attend::train
