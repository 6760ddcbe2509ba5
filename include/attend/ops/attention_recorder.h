#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <memory>
#include <vector>

namespace attend {

/// Records the attention weights of this library's modules and of `dot_product_attention`, for all
/// calls on this thread until the end of the scope, even if `need_weights` is not set. If recorders
/// are nested, only the innermost one records. Recorders may be destroyed in any order and on any
/// thread.
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

  /// Returns the weights (..., T, S) of each call, in the order of the calls. The weights are
  /// detached. Dropout is not applied to them.
  const std::vector<torch::Tensor>& weights() const;

  /// Returns whether this thread has a recorder that is not paused. For implementers of attention.
  static bool is_recording();
  /// Records the weights of one call on this thread, if `is_recording()`. For implementers of
  /// attention.
  static void record(const torch::Tensor& weights);

 private:
  friend class AttentionRecorderPause;
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

/// Pauses recording on this thread until the end of the scope, e.g. while gradient checkpointing
/// recomputes the attention of a layer.
///
///     const AttentionRecorderPause pause;
class ATTEND_API AttentionRecorderPause {
 public:
  AttentionRecorderPause();
  ~AttentionRecorderPause();
  AttentionRecorderPause(const AttentionRecorderPause&) = delete;
  AttentionRecorderPause& operator=(const AttentionRecorderPause&) = delete;

 private:
  std::unique_ptr<AttentionRecorder::Scope> scope_;
};

}  // namespace attend
