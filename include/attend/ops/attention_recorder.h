#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// While it is alive, keeps the weights of every attention computed on this thread, in the order
/// of the calls: the modules need not be asked, and need not be this library's own as long as they
/// call `dot_product_attention`. Recorders nest; the innermost one records.
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

  /// One tensor a call, (..., T, S), before dropout, detached from the graph.
  const std::vector<torch::Tensor>& weights() const { return weights_; }

  /// The recorder that is alive on this thread, or null if there is none or it is paused. For the
  /// implementers of attention.
  static AttentionRecorder* current();
  /// Keeps the weights of one call. For the implementers of attention.
  void record(const torch::Tensor& weights) { weights_.push_back(weights.detach()); }

 private:
  std::vector<torch::Tensor> weights_;
  AttentionRecorder* outer_;
};

/// While it is alive, nothing on this thread is recorded: for what computes an attention twice.
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
