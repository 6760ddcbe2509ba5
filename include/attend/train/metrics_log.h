#pragma once

#include "attend/api.h"
#include "attend/train/observer.h"

#include <filesystem>
#include <memory>

namespace attend::train {

class AppendFile;

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

}  // namespace attend::train
