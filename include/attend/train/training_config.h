#pragma once

#include "attend/enum_names.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace attend::train {

/// Precision of the forward and backward pass.
enum class Precision {
  fp32,  ///< float32
  bf16,  ///< mixed precision: autocast to bfloat16; weights and optimizer state stay float32
  fp16,  ///< mixed precision: autocast to float16 with loss scaling (`GradScaler`)
};

/// Behaviour at a step whose loss or gradient is not finite.
enum class OnNonFinite {
  stop,  ///< throw
  skip,  ///< skip the step and count it
};

/// Optimizer of a run.
enum class OptimizerKind {
  adamw,  ///< AdamW for all parameters
  muon,   ///< Muon for the hidden matrices, AdamW for the rest
};

/// Learning rate schedule after the warm-up; see `lr_at`.
enum class ScheduleKind {
  cosine,    ///< cosine decay
  linear,    ///< linear decay
  constant,  ///< no decay
  wsd,       ///< warm-up, stable, decay: linear decay over the last steps
};

/// Validation metric that selects the best weights.
enum class BestMetric {
  loss,      ///< lowest `Evaluation::loss`
  accuracy,  ///< highest `Evaluation::accuracy()`
  f1,        ///< highest `Evaluation::f1`
};

/// Configuration of a `Trainer`.
struct TrainingConfig {
  int64_t max_steps = 400;                         ///< number of optimizer steps
  int64_t batch_size = 64;                         ///< sequences per forward and backward pass
  int64_t gradient_accumulation_steps = 1;         ///< batches per optimizer step
  double lr = 3e-3;                                ///< peak learning rate
  ScheduleKind schedule = ScheduleKind::cosine;    ///< learning rate schedule
  double min_lr_ratio = 0.1;                       ///< final learning rate as a fraction of lr
  int64_t warmup_steps = 50;                       ///< steps of linear warm-up
  double cooldown_fraction = 0.2;                  ///< wsd: fraction of steps in which lr decays
  OptimizerKind optimizer = OptimizerKind::adamw;  ///< optimizer
  double weight_decay = 0.1;                       ///< decoupled; not for biases and norms
  double beta1 = 0.9;                              ///< AdamW beta1
  double beta2 = 0.99;                             ///< AdamW beta2
  double momentum = 0.95;                          ///< Muon momentum
  double max_grad_norm = 1.0;                      ///< maximum gradient norm, for clipping; 0 = no
                                                   ///< clipping
  double label_smoothing = 0.0;                    ///< label smoothing, for models of this library
  double router_aux_loss_coef = 0.01;              ///< coefficient of the load-balancing loss of a
                                                   ///< mixture of experts
  Precision precision = Precision::fp32;           ///< precision of forward and backward pass
  OnNonFinite on_nonfinite = OnNonFinite::stop;    ///< behaviour at a non-finite loss or gradient
  int64_t eval_every = 100;                        ///< steps between evaluations
  int64_t eval_batches = 100;                      ///< maximum number of batches of an evaluation
                                                   ///< in training, spread evenly over the
                                                   ///< validation data; 0 = all
  BestMetric best_metric = BestMetric::loss;       ///< metric of the best weights and of `patience`
  int64_t patience = 0;                            ///< early stopping after this number of
                                                   ///< evaluations without improvement; 0 = off
  int64_t checkpoint_every = 100;                  ///< steps between checkpoints
  int64_t log_every = 10;                          ///< steps between progress reports
  int64_t seed =
      1;  ///< seed of batches and dropout, and of the weights of models made from a recipe
  int64_t threads = 0;          ///< number of CPU threads; 0 = auto. For a module on the CPU, auto
                                ///< is the fastest number, measured when training starts. For a
                                ///< module on a GPU, auto is all available threads. The number
                                ///< is recorded in checkpoints. It is not changed if other
                                ///< processes start to use cores later.
  std::string device = "auto";  ///< see `resolve_device`
};

}  // namespace attend::train

namespace attend {

/// Names of `train::Precision`.
template <>
struct EnumNames<train::Precision> {
  static constexpr std::array<std::string_view, 3> names{"fp32", "bf16", "fp16"};
};

/// Names of `train::OnNonFinite`.
template <>
struct EnumNames<train::OnNonFinite> {
  static constexpr std::array<std::string_view, 2> names{"stop", "skip"};
};

/// Names of `train::OptimizerKind`.
template <>
struct EnumNames<train::OptimizerKind> {
  static constexpr std::array<std::string_view, 2> names{"adamw", "muon"};
};

/// Names of `train::BestMetric`.
template <>
struct EnumNames<train::BestMetric> {
  static constexpr std::array<std::string_view, 3> names{"loss", "accuracy", "f1"};
};

/// Names of `train::ScheduleKind`.
template <>
struct EnumNames<train::ScheduleKind> {
  static constexpr std::array<std::string_view, 4> names{"cosine", "linear", "constant", "wsd"};
};

}  // namespace attend
