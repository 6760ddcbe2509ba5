#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Records the weights of every attention computed on this thread until the end of the scope,
/// without `need_weights`: of this library's modules and of any other caller of
/// `dot_product_attention`. If recorders are nested, the innermost one records.
///
///     AttentionRecorder recorder;
///     model->forward(tokens);
///     recorder.weights().at(0);  // (B, H, T, S) of the first layer
class ATTEND_API AttentionRecorder {
 public:
  AttentionRecorder();
  ~AttentionRecorder();
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// Returns the weights (..., T, S) of each call, in order; before dropout, detached.
  const std::vector<torch::Tensor>& weights() const { return weights_; }

  /// Returns the active recorder of this thread; null if there is none or it is paused. For
  /// implementers of attention.
  static AttentionRecorder* current();
  /// Records the weights of one call. For implementers of attention.
  void record(const torch::Tensor& weights) { weights_.push_back(weights.detach()); }

 private:
  std::vector<torch::Tensor> weights_;
  AttentionRecorder* outer_;
};

/// Pauses recording on this thread until the end of the scope, e.g. while gradient checkpointing
/// recomputes an attention.
///
///     const AttentionRecorderPause pause;
class ATTEND_API AttentionRecorderPause {
 public:
  AttentionRecorderPause();
  ~AttentionRecorderPause();
  AttentionRecorderPause(const AttentionRecorderPause&) = delete;
  AttentionRecorderPause& operator=(const AttentionRecorderPause&) = delete;

 private:
  AttentionRecorder* paused_;
};

}  // namespace attend
