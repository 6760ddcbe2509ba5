#include "attend/ops/attention_recorder.h"

namespace attend {
namespace {

thread_local AttentionRecorder* innermost = nullptr;

}  // namespace

AttentionRecorder::AttentionRecorder() : outer_(innermost) {
  innermost = this;
}

AttentionRecorder::~AttentionRecorder() {
  innermost = outer_;
}

AttentionRecorder* AttentionRecorder::current() {
  return innermost;
}

AttentionRecorderPause::AttentionRecorderPause() : paused_(innermost) {
  innermost = nullptr;
}

AttentionRecorderPause::~AttentionRecorderPause() {
  innermost = paused_;
}

}  // namespace attend
