#pragma once

#include "attend/api.h"
#include "attend/train/optimizer.h"

#include <vector>

namespace attend::train {

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

}  // namespace attend::train
