#pragma once

#include "attend/train/task.h"

namespace attend::train {

/// A task whose examples are drawn one by one, endlessly. Which of them are held out is decided by
/// the checksum of their prompt, so nothing that the model is measured on was trained on, and the
/// held-out part is the same for each seed.
///
/// To make one: `tokenizer`, `draw` and `rows`.
class ExampleTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override;

 protected:
  /// One example, from whatever random numbers it takes.
  virtual Example draw(Sampler& sampler) const = 0;
  /// One example to measure with: another kind than `draw` gives, if the model has to go beyond
  /// what it was taught.
  virtual Example draw_held_out(Sampler& sampler) const { return draw(sampler); }
  /// Examples as a batch; see example_batches.h.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  std::vector<Example> held_out(std::size_t count) const;
};

/// A task with a list of examples, each of which is seen once in an epoch.
///
/// To make one: `tokenizer`, `rows`, and `set_examples` at the end of the constructor.
class ListedTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override { return samples_; }

 protected:
  /// Holds out a share of the different prompts, at least one, which their number alone decides;
  /// all examples of a prompt go the same way. Throws InputError if there are fewer than two.
  void set_examples(const std::vector<Example>& examples, double held_out);
  /// Examples as a batch; see example_batches.h.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  Batch training_;
  Batch held_out_;
  std::vector<Example> samples_;
};

/// The rows of a batch, in order, in batches of at most `size`.
std::vector<Batch> split_rows(const Batch& batch, int64_t size);

}  // namespace attend::train
