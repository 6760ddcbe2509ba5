#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// Changes the parameters of a model by their gradients.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates every parameter that has a gradient.
  virtual void step(double learning_rate) = 0;
  virtual void zero_grad() = 0;

  /// All that the next step depends on besides parameters and gradients, as views, by names like
  /// `decoder.norm.weight/average`.
  virtual std::map<std::string, torch::Tensor> state() const = 0;
  /// Copies what `state` gave. Throws InputError, listing each name that is missing, unknown, or of
  /// another dtype or shape, before anything is changed.
  virtual void load_state(const std::map<std::string, torch::Tensor>& state) = 0;
};

}  // namespace attend::train
