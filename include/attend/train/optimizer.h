#pragma once

#include "attend/train/training_config.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>

namespace attend::train {

/// Changes the parameters of a model by their gradients. It keeps the parameters that it was made
/// for; those that were frozen then stay as they are.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates every parameter that has a gradient.
  virtual void step(double learning_rate) = 0;
  /// Leaves every parameter without a gradient.
  virtual void zero_grad() = 0;

  /// All that the next step depends on besides parameters and gradients, as views, by names like
  /// `decoder.norm.weight/exp_avg`: a parameter's, as in the state dict, and what is kept of it.
  virtual std::map<std::string, torch::Tensor> state() const = 0;
  /// Copies what `state` gave. Throws InputError, listing each name that is missing, unknown, or of
  /// another dtype or shape, before anything is changed.
  void load_state(const std::map<std::string, torch::Tensor>& state);
};

/// The optimizer that `config` names: AdamW for all parameters, or Muon for the hidden matrices of
/// `trainable_parameters` and AdamW for the rest, both at the same learning rate.
///
///     const auto optimizer = make_optimizer(*model, recipe.training);
///     optimizer->zero_grad();
///     loss.backward();
///     optimizer->step(lr_at(recipe.training, step));
std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& module,
                                          const TrainingConfig& config);

}  // namespace attend::train
