#pragma once

#include "attend/enum_names.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace attend::train {

/// What the numbers of a forward pass are.
enum class Precision {
  fp32,  ///< float32 throughout
  bf16,  ///< bfloat16 where it is safe (autocast); weights and optimizer stay float32
};

/// What to do when the loss or its gradient is not finite.
enum class OnNonFinite {
  stop,  ///< end the run with an error
  skip,  ///< leave the step out, and count it
};

/// What turns gradients into steps.
enum class OptimizerKind {
  adamw,  ///< AdamW for all parameters
  muon,   ///< Muon for the hidden matrices, AdamW for the rest
};

/// The course of the learning rate after the warm-up.
enum class ScheduleKind {
  cosine,    ///< falls along half a cosine to the last step
  linear,    ///< falls in a line to the last step
  constant,  ///< stays
  wsd,       ///< warm-up, stable, decay: stays, and falls in a line over the last steps
};

/// How a model is trained.
struct TrainingConfig {
  int64_t max_steps = 400;                  ///< optimizer steps
  int64_t batch_size = 64;                  ///< sequences in a backward pass
  int64_t gradient_accumulation_steps = 1;  ///< backward passes in a step
  double lr = 3e-3;                         ///< highest learning rate
  ScheduleKind schedule = ScheduleKind::cosine;
  double min_lr_ratio = 0.1;  ///< learning rate at the last step, if it falls, as a share of lr
  int64_t warmup_steps = 50;  ///< steps in which the learning rate rises to lr
  double cooldown_fraction = 0.2;  ///< wsd: share of the steps in which the learning rate falls
  OptimizerKind optimizer = OptimizerKind::adamw;
  double weight_decay = 0.1;     ///< of matrices and embeddings; biases and norms have none
  double beta1 = 0.9;            ///< AdamW: memory of the gradient
  double beta2 = 0.99;           ///< AdamW: memory of its square
  double momentum = 0.95;        ///< Muon: memory of the gradient
  double max_grad_norm = 1.0;    ///< highest norm of the gradient; 0 = no limit
  double label_smoothing = 0.0;  ///< share of a target's weight that all tokens share
  double router_aux_loss_coef =
      0.01;  ///< weight of the loss that spreads tokens over experts, if any
  Precision precision = Precision::fp32;
  OnNonFinite on_nonfinite = OnNonFinite::stop;
  int64_t eval_every = 100;  ///< steps between two evaluations
  int64_t patience = 0;      ///< evaluations without a lower loss that end the run; 0 = none do
  int64_t checkpoint_every = 100;  ///< steps between two checkpoints
  int64_t log_every = 10;          ///< steps between two progress reports
  int64_t seed = 1;                ///< of the weights, the batches and dropout
  int64_t threads = 0;             ///< CPU threads; 0 = as many as LibTorch takes
  std::string device = "auto";     ///< "cpu", "cuda", "cuda:1", ...; "auto" = a GPU if there is one
};

}  // namespace attend::train

namespace attend {

template <>
struct EnumNames<train::Precision> {
  static constexpr std::array<std::string_view, 2> names{"fp32", "bf16"};
};

template <>
struct EnumNames<train::OnNonFinite> {
  static constexpr std::array<std::string_view, 2> names{"stop", "skip"};
};

template <>
struct EnumNames<train::OptimizerKind> {
  static constexpr std::array<std::string_view, 2> names{"adamw", "muon"};
};

template <>
struct EnumNames<train::ScheduleKind> {
  static constexpr std::array<std::string_view, 4> names{"cosine", "linear", "constant", "wsd"};
};

}  // namespace attend
