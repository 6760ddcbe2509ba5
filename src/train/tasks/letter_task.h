#pragma once

#include "train/tasks/question_task.h"

namespace attend::train {

/// A task of strings of letters: 1 to `length` of the first `symbols` small ones, and what becomes
/// of them. To make one: `answer`.
class LetterTask : public QuestionTask {
 public:
  explicit LetterTask(const Recipe& recipe);

  /// Twelve of all letters.
  static Recipe defaults();

 protected:
  virtual std::string answer(const std::string& text) const = 0;

  Example draw(Sampler& sampler) const override;

 private:
  std::string letters_;
  int64_t longest_;
};

}  // namespace attend::train
