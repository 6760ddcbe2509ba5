#include "attend/ops/attention_recorder.h"

#include "ops/thread_scope.h"

namespace attend {

struct Recording {
  bool paused;
  std::vector<torch::Tensor> weights = {};
};

struct AttentionRecorder::Scope : ThreadScope<Recording> {
  using ThreadScope::ThreadScope;
};

AttentionRecorder::AttentionRecorder() : scope_(std::make_unique<Scope>(/*paused=*/false)) {}

AttentionRecorder::~AttentionRecorder() = default;

const std::vector<torch::Tensor>& AttentionRecorder::weights() const {
  return scope_->state().weights;
}

bool AttentionRecorder::is_recording() {
  const auto* recording = Scope::innermost();
  return recording != nullptr && !recording->paused;
}

void AttentionRecorder::record(const torch::Tensor& weights) {
  if (is_recording()) Scope::innermost()->weights.push_back(weights.detach());
}

AttentionRecorderPause::AttentionRecorderPause()
    : scope_(std::make_unique<AttentionRecorder::Scope>(/*paused=*/true)) {}

AttentionRecorderPause::~AttentionRecorderPause() = default;

}  // namespace attend
