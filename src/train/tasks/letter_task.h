#pragma once

#include "train/tasks/question_task.h"

namespace attend::train {

/// A task on strings of 1 to `length` letters, drawn from the first `symbols` lowercase letters. A
/// subclass overrides `answer`.
class LetterTask : public QuestionTask {
 public:
  explicit LetterTask(const Recipe& recipe);

  /// Default recipe: strings of up to 12 letters, drawn from the whole alphabet.
  static Recipe defaults();

 protected:
  /// Returns the expected answer for the letters `text`.
  virtual std::string answer(const std::string& text) const = 0;

  Example draw(Sampler& sampler) const override;

 private:
  std::string letters_;
  int64_t max_length_;
};

}  // namespace attend::train
