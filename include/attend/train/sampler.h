#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// Where training stands in its data: the random numbers that examples are made of, and, where
/// there is a list of examples, which of them are still to come in this epoch. A checkpoint holds
/// its state, so that a resumed run sees the same examples.
///
///     Sampler sampler(seed);
///     auto batch = select_rows(examples, sampler.rows(examples.tokens.size(0), 64));
class Sampler {
 public:
  explicit Sampler(uint64_t seed);

  /// Draws what is not in a list.
  torch::Generator& generator() { return generator_; }
  /// A whole number in 0 .. bound-1.
  int64_t below(int64_t bound);

  /// The next `size` of `count` rows (size), int64, in random order: all of them before any comes
  /// again, in another order each time. `count` is the same in each call.
  torch::Tensor rows(int64_t count, int64_t size);

  /// All that what comes next depends on, by name; views are never given.
  std::map<std::string, torch::Tensor> state() const;
  /// Takes what `state` gave. Throws InputError if it is anything else.
  void load_state(const std::map<std::string, torch::Tensor>& state);

 private:
  torch::Generator generator_;
  torch::Tensor order_;  // (count) of this epoch
  int64_t next_ = 0;     // position in it
};

}  // namespace attend::train
