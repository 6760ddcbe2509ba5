#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"
#include "attend/nn/trainable_parameters.h"
#include "attend/train/training_config.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// Base class of the optimizers of this library. An optimizer has one parameter group with the
/// option `lr`; it does not support `add_param_group`.
///
/// The parameters of an optimizer may be frozen. A step updates only the parameters that require a
/// gradient at that time: a parameter unfrozen later is optimized from then on, and a parameter
/// frozen later is no longer changed, not even by weight decay.
class ATTEND_API Optimizer : public torch::optim::Optimizer {
 public:
  /// Updates every parameter that requires a gradient and whose gradient is defined. `closure`, if
  /// any, computes gradients and loss first. Returns its loss, or an undefined tensor. Throws
  /// c10::ValueError if a parameter group was added.
  torch::Tensor step(LossClosure closure = nullptr) final;

  /// Returns the tensors of the optimizer state by name; the tensors are not copied. A name is
  /// `<parameter>/<key>`, for example `decoder.norm.weight/exp_avg`. Contains the state of each
  /// parameter that requires a gradient or was optimized before.
  std::map<std::string, torch::Tensor> named_state() const;
  /// Copies the state returned by another optimizer's `named_state()`. Throws InputError if an
  /// entry is missing or unknown, or has another dtype or shape; the message lists each such entry,
  /// and the optimizer is unchanged.
  virtual void load_named_state(const std::map<std::string, torch::Tensor>& state);

  /// Writes learning rate and named state to an archive; used by torch::save.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Reads the result of `save`; used by torch::load. Throws InputError in the same cases as
  /// `load_named_state`.
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  /// Makes the parameter group.
  Optimizer(const std::vector<TrainableParameter>& parameters, double lr);
  /// Copies the parameter group, of an optimizer that this one uses.
  explicit Optimizer(const torch::optim::OptimizerParamGroup& group);

  /// Updates every parameter for which `Slot::has_grad`.
  virtual void update(double lr) = 0;

  /// A parameter and its state, which is created when it is first needed.
  struct Slot {
    std::string name;         ///< as in the state dict
    torch::Tensor parameter;  ///< the parameter, which may be frozen
    ParameterRole role;       ///< determines whether weight decay applies
    /// Returns the state before the first update.
    std::map<std::string, torch::Tensor> (*initial_state)(const torch::Tensor& parameter);
    std::map<std::string, torch::Tensor> state = {};  ///< empty until it is needed

    /// Returns the name that `Optimizer::named_state` uses for the tensor `key`:
    /// `<parameter>/<key>`.
    std::string full_name(const std::string& key) const { return name + "/" + key; }
    /// True if `all`, the state of an optimizer, has entries for this parameter.
    bool is_in(const std::map<std::string, torch::Tensor>& all) const;
    /// True if the next step changes the parameter.
    bool has_grad() const { return parameter.requires_grad() && parameter.grad().defined(); }
    /// The state, created if there is none yet.
    std::map<std::string, torch::Tensor>& ensure_state();
  };

  /// Returns the slots of all parameters; `slots_` unless overridden.
  virtual std::vector<Slot*> slots() const;
  /// Returns the slots of `optimizer`. Used by an optimizer that consists of others.
  static std::vector<Slot*> slots_of(const Optimizer& optimizer) { return optimizer.slots(); }

  mutable std::vector<Slot> slots_;  ///< one per parameter; mutable, since `named_state` creates
                                     ///< states that do not exist yet
};

/// AdamW (Loshchilov and Hutter 2019) with LibTorch's fused kernel, which reads parameter, gradient
/// and both moments in one pass; torch::optim::AdamW needs about ten passes. Parameters with
/// `ParameterRole::no_decay` have no weight decay.
///
/// Each parameter has a state of three tensors, named as in torch.optim. `exp_avg` and `exp_avg_sq`
/// are the two moments: moving averages of the gradient and of its square, in the parameter's
/// shape. `step` is the number of updates, 0-dimensional float32.
///
///     AdamW optimizer(trainable_parameters(*model), config);
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step();
class ATTEND_API AdamW : public Optimizer {
 public:
  /// Uses `lr`, `beta1`, `beta2` and `weight_decay` of `config`.
  AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config);

 protected:
  void update(double lr) override;

 private:
  void update(bool decay, double lr);

  double weight_decay_;
  double beta1_;
  double beta2_;
};

/// Approximates the orthogonal factor U V^T of a matrix U S V^T by five Newton-Schulz iterations in
/// bfloat16 (Jordan et al. 2024).
///
/// `matrices` (M, N) or (B, M, N), of any floating-point dtype; returns the same shape in bfloat16.
/// The iterations start from X, which is a matrix divided by its Frobenius norm. They map singular
/// values of X that are at least 0.002 to values between 0.6 and 1.3, and multiply smaller singular
/// values by at most 485. Returns zeros for a matrix of zeros.
ATTEND_API torch::Tensor newton_schulz(const torch::Tensor& matrices);

/// Muon (Jordan et al. 2024). For each matrix (M, N), a step computes the Nesterov momentum of the
/// gradient, orthogonalizes it with `newton_schulz`, and multiplies the result by
/// 0.2 * sqrt(max(M, N)) and by the learning rate. With the factor 0.2 * sqrt(max(M, N)), updates
/// have about the same root mean square as with AdamW (Liu et al. 2025, Moonlight), so both
/// optimizers can share one learning rate. Weight decay is the same as in AdamW. Equals
/// torch.optim.Muon of PyTorch 2.13 with adjust_lr_fn="match_rms_adamw".
///
/// A parameter that joins several matrices is orthogonalized as one matrix. Examples are
/// `attention.qkv` and `up` of a gated feed-forward.
///
/// State per matrix, named as in torch.optim: `momentum_buffer`, in the matrix's shape.
///
///     Muon optimizer(matrices, config);  // parameters with ParameterRole::hidden_matrix
///     optimizer.step();
class ATTEND_API Muon : public Optimizer {
 public:
  /// Uses `lr`, `momentum` and `weight_decay` of `config`. Throws c10::ValueError if one of
  /// `matrices` is not 2-D.
  Muon(const std::vector<TrainableParameter>& matrices, const TrainingConfig& config);

 protected:
  void update(double lr) override;

 private:
  void update(const std::vector<Slot*>& matrices, double lr) const;  // of the same shape

  double momentum_;
  double weight_decay_;
};

/// Sets the learning rate of all parameter groups of any optimizer.
///
///     set_lr(*optimizer, lr_at(config, step));
ATTEND_API void set_lr(torch::optim::Optimizer& optimizer, double lr);

/// Returns the name of a type of optimizer: the name of the `OptimizerKind` for a result of
/// `make_optimizer`, and the C++ class for another optimizer.
///
///     optimizer_name(torch::optim::SGD(net->parameters(), 0.1)) == "torch::optim::SGD"
ATTEND_API std::string optimizer_name(const torch::optim::Optimizer& optimizer);

/// Returns the state of any optimizer as tensors, for checkpoints. For an `Optimizer`, this is its
/// `named_state`; for another optimizer, one uint8 tensor with the bytes that torch::save writes,
/// whose name is `optimizer_name`.
ATTEND_API std::map<std::string, torch::Tensor> state_of(const torch::optim::Optimizer& optimizer);
/// Restores the result of `state_of`. LibTorch reads the bytes of another optimizer as TorchScript:
/// load only checkpoints of a trusted origin. Throws InputError if the state is that of another
/// type of optimizer, or in the same cases as `Optimizer::load_named_state`.
ATTEND_API void load_state_of(torch::optim::Optimizer& optimizer,
                              const std::map<std::string, torch::Tensor>& state);

/// Creates the optimizer `config.optimizer` for all parameters of `module`. With
/// `OptimizerKind::adamw`, AdamW updates all parameters. With `OptimizerKind::muon`, Muon updates
/// the hidden matrices (`ParameterRole::hidden_matrix`) and AdamW the rest, both with the same
/// learning rate.
///
///     const auto optimizer = make_optimizer(model, config);
///     optimizer->zero_grad();
///     loss.backward();
///     set_lr(*optimizer, lr_at(config, step));
///     optimizer->step();
ATTEND_API std::unique_ptr<Optimizer> make_optimizer(ConstModuleRef module,
                                                     const TrainingConfig& config);

}  // namespace attend::train
