#pragma once

#include "attend/nn/trainable_parameters.h"
#include "attend/train/optimizer.h"

#include <vector>

namespace attend::train {

/// A matrix with the singular vectors of `matrix` (M, N) and singular values near 1, between 0.6
/// and 1.3, unless they were below 0.002 of its Frobenius norm: those rise by a factor of 485 at
/// most. Newton and Schulz's iteration in bfloat16, five rounds (Jordan et al. 2024). Returns
/// (M, N), bfloat16. Zeros stay zeros.
torch::Tensor newton_schulz(const torch::Tensor& matrix);

/// Muon (Jordan et al. 2024): the step of a matrix (M, N) is its Nesterov momentum, orthogonalized,
/// so that all directions learn alike, times 0.2 * sqrt(max(M, N)) times the learning rate: as long
/// as AdamW's steps usually are (Liu et al. 2025, Moonlight). Weight decay is AdamW's. So both can
/// share one learning rate. Equals torch.optim.Muon of PyTorch 2.13 with
/// adjust_lr_fn="match_rms_adamw".
///
/// A matrix that a layer keeps joined is orthogonalized as one: the queries, keys and values of
/// `attention.qkv` (3*E, E) together, the two halves of a gated feed-forward's `up` as well.
///
/// State of each matrix, named as in torch.optim: `momentum_buffer`, in its shape.
///
///     Muon optimizer(matrices, recipe.training);  // those with ParameterRole::hidden_matrix
///     optimizer.step(learning_rate);
class Muon : public Optimizer {
 public:
  /// Throws c10::ValueError if one of `matrices` is none.
  Muon(const std::vector<TrainableParameter>& matrices, const TrainingConfig& config);

  void step(double learning_rate) override;
  void zero_grad() override;
  std::map<std::string, torch::Tensor> state() const override;

 private:
  struct Matrix {
    std::string name;
    torch::Tensor parameter;
    torch::Tensor momentum;  // mean of the gradients, the later ones weighing more
  };
  void step(Matrix& matrix, double learning_rate) const;

  std::vector<Matrix> matrices_;
  double momentum_;
  double weight_decay_;
};

}  // namespace attend::train
