#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// Random number generator for training batches and for the shuffled order of a dataset. Its state
/// is part of every checkpoint, so a resumed run draws the same batches as a run without
/// interruption.
///
///     Sampler sampler(seed);
///     auto batch = select_rows(examples, sampler.rows(examples.tokens.size(0), 64));
class ATTEND_API Sampler {
 public:
  /// Seeds the generator.
  explicit Sampler(uint64_t seed);

  /// The sampler's own CPU generator. It can be passed to random functions of LibTorch.
  torch::Generator& generator() { return generator_; }
  /// Returns a uniform random integer in [0, bound). Throws c10::ValueError unless bound > 0.
  int64_t below(int64_t bound);

  /// Returns the next `size` row indices of a dataset with `count` rows, as an int64 tensor (size).
  /// Every epoch visits all rows once, in a new random order. Throws c10::ValueError unless `count`
  /// is positive and the same in all calls.
  torch::Tensor rows(int64_t count, int64_t size);

  /// Returns a sampler that draws the same numbers.
  Sampler copy() const;
  /// Returns copies of the state's tensors, by name.
  std::map<std::string, torch::Tensor> state() const;
  /// Restores the state returned by `state()`. Throws InputError for an invalid state.
  void load_state(const std::map<std::string, torch::Tensor>& state);

 private:
  torch::Generator generator_;
  torch::Tensor order_;  // (count): row indices of this epoch
  int64_t next_ = 0;     // position in order_
};

}  // namespace attend::train
