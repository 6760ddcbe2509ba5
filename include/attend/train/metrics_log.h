#pragma once

#include "attend/api.h"
#include "attend/train/observer.h"

#include <filesystem>
#include <memory>

namespace attend {

class AppendFile;

namespace train {

/// Writes metrics as JSON lines. A progress report is written as a line with the fields of
/// `Progress`, for example `{"step": 10, "train_loss": 2.1, "lr": 0.003, ...}`. The field
/// `accuracy` is named `train_accuracy`. An evaluation is written as a line such as
/// `{"step": 100, "val_loss": 1.9, "val_targets": 5000, "val_accuracy": 0.8}`. Non-finite numbers
/// are written as null.
///
///     MetricsLog log("runs/demo/metrics.jsonl");
class ATTEND_API MetricsLog : public Observer {
 public:
  /// Creates the file. An existing file is overwritten if `resumed_step` is 0. If `resumed_step` is
  /// greater than 0, the run was resumed after this step: incomplete lines and lines of later steps
  /// are removed from the existing file, and new lines are appended. The constructor and each
  /// report throw std::runtime_error if the file cannot be written; the message names the file.
  explicit MetricsLog(const std::filesystem::path& path, int64_t resumed_step = 0);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  std::shared_ptr<AppendFile> file_;
};

/// Writes metrics to a TensorBoard event file, `events.out.tfevents.TIME.HOST`. Each progress
/// report adds the scalars train/loss, train/lr, train/accuracy, train/grad_norm,
/// train/tokens_per_second and train/peak_memory (bytes), with the step. Each evaluation adds
/// val/loss and val/accuracy, with the step. An accuracy is omitted if `ExactMatch::accuracy` is
/// std::nullopt.
///
///     TensorBoardLog log("runs/demo/tensorboard");  // tensorboard --logdir runs
class ATTEND_API TensorBoardLog : public Observer {
 public:
  /// Creates `directory` and a new file in it. If `resumed_step` > 0, the run was resumed after
  /// this step: TensorBoard then ignores later steps in older files. The constructor, `on_progress`
  /// and `on_evaluation` throw std::runtime_error if the file cannot be written; the message names
  /// the file.
  explicit TensorBoardLog(const std::filesystem::path& directory, int64_t resumed_step = 0);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  std::shared_ptr<AppendFile> file_;
};

}  // namespace train
}  // namespace attend
