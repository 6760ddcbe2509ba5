#pragma once

#include "attend/api.h"
#include "attend/train/task.h"

namespace attend::train {

/// A task whose examples are generated. The checksum of an example's prompt determines whether the
/// example is training or validation data, so the training and validation data never overlap. The
/// validation data is the same for all seeds.
///
/// A subclass overrides `tokenizer`, `draw` and `rows`.
class ATTEND_API ExampleTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override;

 protected:
  /// Generates one example.
  virtual Example draw(Sampler& sampler) const = 0;
  /// Generates one example for the validation data. The example is discarded if the checksum of its
  /// prompt makes it training data, or if the validation data already contains its prompt. Calls
  /// `draw` by default. Override it to test generalization to examples that `draw` does not
  /// generate.
  virtual Example draw_validation(Sampler& sampler) const { return draw(sampler); }
  /// Converts examples to a batch; see example_batches.h.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  std::vector<Example> validation_examples(std::size_t count) const;
};

/// A task with a fixed list of examples.
///
/// A subclass overrides `tokenizer` and `rows`, and calls `set_examples` at the end of its
/// constructor.
class ATTEND_API ListedTask : public Task {
 public:
  Batch training_batch(int64_t size, Sampler& sampler) const override;
  std::optional<int64_t> num_training_sequences() const override {
    return training_.tokens.size(0);
  }
  std::vector<Batch> validation_batches(int64_t size) const override;
  std::vector<Example> samples() const override { return samples_; }

 protected:
  /// Splits the examples into training and validation data. All examples with the same prompt go to
  /// the same part. The fraction `val_fraction` of the distinct prompts goes to the validation
  /// data; each part gets at least one prompt. The split is random but the same for all seeds.
  /// Throws InputError if there are fewer than two distinct prompts.
  void set_examples(const std::vector<Example>& examples, double val_fraction);
  /// Sets training and validation data that are not parts of one list.
  void set_examples(const std::vector<Example>& training, const std::vector<Example>& validation);
  /// Converts examples to a batch; see example_batches.h.
  virtual Batch rows(const std::vector<Example>& examples) const = 0;

 private:
  Batch training_;
  Batch validation_;
  std::vector<Example> samples_;
};

/// Splits a batch into batches of at most `size` rows, in order.
ATTEND_API std::vector<Batch> split_rows(const Batch& batch, int64_t size);

}  // namespace attend::train
