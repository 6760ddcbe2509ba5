#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"
#include "attend/nn/trainable_parameters.h"
#include "attend/train/training_config.h"

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// Base class of the optimizers.
///
/// The parameters of an optimizer may be frozen. A step updates only the parameters that require a
/// gradient at that time: a parameter unfrozen later is optimized from then on, and a parameter
/// frozen later is no longer changed, not even by weight decay.
class ATTEND_API Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates every parameter that requires a gradient and whose gradient is defined.
  virtual void step(double lr) = 0;
  /// Resets the gradients of all parameters, frozen ones included, to undefined.
  void zero_grad();

  /// Returns the tensors of the optimizer state by name; the tensors are not copied. A name is
  /// `<parameter>/<key>`, for example `decoder.norm.weight/exp_avg`. Contains the state of each
  /// parameter that requires a gradient or was optimized before.
  std::map<std::string, torch::Tensor> state();
  /// Copies the state returned by another optimizer's `state()`. Throws InputError if an entry is
  /// missing or unknown, or has another dtype or shape; the message lists each such entry, and the
  /// optimizer is unchanged.
  void load_state(const std::map<std::string, torch::Tensor>& state);

 protected:
  /// A parameter and its state, which is created when it is first needed.
  struct Slot {
    std::string name;         ///< as in the state dict
    torch::Tensor parameter;  ///< the parameter, which may be frozen
    ParameterRole role;       ///< determines whether weight decay applies
    /// Returns the state before the first update.
    std::map<std::string, torch::Tensor> (*initial_state)(const torch::Tensor& parameter);
    std::map<std::string, torch::Tensor> state = {};  ///< empty until it is needed

    /// Returns the name that `Optimizer::state` uses for the tensor `key`: `<parameter>/<key>`.
    std::string full_name(const std::string& key) const { return name + "/" + key; }
    /// True if `all`, the state of an optimizer, has entries for this parameter.
    bool is_in(const std::map<std::string, torch::Tensor>& all) const;
    /// True if the next step updates the parameter.
    bool has_grad() const { return parameter.requires_grad() && parameter.grad().defined(); }
    /// The state, created if there is none yet.
    std::map<std::string, torch::Tensor>& ensure_state();
  };

  /// Returns the slots of all parameters; `slots_` unless overridden.
  virtual std::vector<Slot*> slots();
  /// Returns the slots of `optimizer`. Used by an optimizer that combines several optimizers.
  static std::vector<Slot*> slots_of(Optimizer& optimizer) { return optimizer.slots(); }

  std::vector<Slot> slots_;  ///< one per parameter
};

/// Creates the optimizer `config.optimizer` for all parameters of `module`. With
/// `OptimizerKind::adamw`, AdamW updates all parameters. With `OptimizerKind::muon`, Muon updates
/// the hidden matrices (`ParameterRole::hidden_matrix`) and AdamW the rest, both with the same
/// learning rate.
///
///     const auto optimizer = make_optimizer(model, config);
///     optimizer->zero_grad();
///     loss.backward();
///     optimizer->step(lr_at(config, step));
ATTEND_API std::unique_ptr<Optimizer> make_optimizer(ConstModuleRef module,
                                                     const TrainingConfig& config);

}  // namespace attend::train
