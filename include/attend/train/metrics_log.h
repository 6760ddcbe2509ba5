#pragma once

#include "attend/train/observer.h"

#include <filesystem>
#include <memory>

namespace attend::train {

class AppendFile;

/// Writes each report of a run as a line of JSON: `{"step": 10, "loss": 2.1, ...}` for progress,
/// with the names and units of `Progress`, `{"step": 100, "val_loss": 1.9, ...}` for an evaluation.
/// JSON has no NaN and no infinity: both become null.
///
///     MetricsLog log("runs/demo/metrics.jsonl");
class MetricsLog : public Observer {
 public:
  /// Begins a new file. For a run that goes on after `resumed_step` it keeps the lines up to that
  /// step: later ones, and a last one that was torn, are of steps that will be done again. Throws
  /// std::runtime_error, naming the file, if it cannot be written; so does each report.
  explicit MetricsLog(const std::filesystem::path& path, int64_t resumed_step = 0);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  std::shared_ptr<AppendFile> file_;
};

}  // namespace attend::train
