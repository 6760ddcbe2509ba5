#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "attend/train/embedding_snapshots.h"
#include "attend/train/observer.h"
#include "attend/train/run_directory.h"
#include "attend/train/task.h"

#include <memory>
#include <vector>

namespace attend {

class AppendFile;

namespace train {

/// Records what the model of a run learns: the samples and the token embeddings before the first
/// step and at each evaluation.
///
/// `samples.jsonl` has a line for each evaluation: `{"step": 20, "samples": [{"input": "dab=",
/// "output": "abd.", "expected": "abd.", "correct": true, "input_tokens": [3, 0, 1, 27],
/// "output_tokens": [0, 1, 3, 26]}]}`. `expected` and `correct` are null for a continuation, which
/// has 64 tokens; `correct` is null for a number, too. Invalid UTF-8 in a text is replaced, so that
/// only the tokens are exact. The list is empty if the logits were not finite.
///
/// The folder `embeddings` has at most 50 snapshots, files such as `step-000000020.safetensors`. If
/// there are more evaluations, only the snapshots of every 2nd, 4th, 8th, ... evaluation are kept.
///
/// The files depend only on the weights at the evaluations. An interrupted and resumed run has the
/// same files as a run without interruption, since an evaluation is recorded before the checkpoint
/// of its step is saved.
class ATTEND_API RunHistory : public Observer {
 public:
  /// `state`: where training begins. If its step is 0, existing files are deleted. Otherwise, what
  /// was recorded after this step is deleted. The constructor and the functions below throw
  /// std::runtime_error if a file cannot be written; the message names the file. The arguments must
  /// outlive this object.
  RunHistory(const RunDirectory& directory, Model& model, const Task& task, int64_t seed,
             const TrainerState& state);

  /// Records the model as it is after `step` steps.
  void record(int64_t step);
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  const RunDirectory& directory_;
  Model& model_;
  const Task& task_;
  int64_t seed_;
  std::vector<int64_t> steps_;  // recorded so far
  std::shared_ptr<AppendFile> samples_;
};

}  // namespace train
}  // namespace attend
