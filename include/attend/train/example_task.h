#pragma once

#include "attend/train/task.h"

#include <functional>

namespace attend::train {

/// A task whose examples are drawn one by one, endlessly. Which of them are held out is decided by
/// the checksum of their prompt, so nothing that the model is measured on was trained on, and the
/// held-out part is the same for each seed.
///
/// To make one: `draw`, `rows` (see example_batches.h) and `tokenizer`.
class ExampleTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override;

 protected:
  /// One example, from whatever random numbers it takes.
  virtual Example draw(Sampler& sampler) const = 0;
  /// One held-out example: others than to train on, if the task asks for more than it teaches.
  virtual Example draw_held_out(Sampler& sampler) const { return draw(sampler); }
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  std::vector<Example> held_out(std::size_t count) const;
};

}  // namespace attend::train
