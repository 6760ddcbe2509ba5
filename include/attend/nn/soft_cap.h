#pragma once

#include "attend/nn/attention_part.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Bounds the scores smoothly to +-cap: cap * tanh(score / cap), before masks (Gemma 2).
///
///     SoftCap soft_cap(50.0);
class SoftCapImpl : public torch::nn::Cloneable<SoftCapImpl>, public AttentionPart {
 public:
  /// Throws c10::ValueError unless `cap` is positive.
  explicit SoftCapImpl(double cap);

  void on_scores(Heads& heads) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double cap;
};
TORCH_MODULE(SoftCap);

/// Makes a `SoftCap`: `.add(soft_cap(50.0))`.
AttentionPartFactory soft_cap(double cap);

}  // namespace attend
