#pragma once

#include "attend/train/observer.h"

#include <filesystem>
#include <memory>

namespace attend::train {

class AppendFile;

/// Writes the reports of a run as an event file of TensorBoard,
/// `events.out.tfevents.<time>.<host>`: the scalars train/loss, train/learning_rate,
/// train/accuracy, train/gradient_norm, train/tokens_per_second, train/memory (bytes), val/loss and
/// val/accuracy, by step.
///
///     TensorBoardLog log("runs/demo/tensorboard");  // tensorboard --logdir runs
class TensorBoardLog : public Observer {
 public:
  /// Makes `directory` if there is none, and in it a new file; others are left as they are. For a
  /// run that goes on after `resumed_step` it tells TensorBoard to forget the later steps that an
  /// earlier file may hold. Throws std::runtime_error, naming the file, if it cannot be written; so
  /// does each report.
  explicit TensorBoardLog(const std::filesystem::path& directory, int64_t resumed_step = 0);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  std::shared_ptr<AppendFile> file_;
};

}  // namespace attend::train
