#pragma once

#include "attend/train/observer.h"

#include <filesystem>
#include <fstream>

namespace attend::train {

/// Writes each report of a run as a line of JSON: `{"step": 10, "loss": 2.1, ...}` for progress,
/// `{"step": 100, "val_loss": 1.9, ...}` for an evaluation.
class MetricsLog : public Observer {
 public:
  /// Throws std::runtime_error if the file cannot be written.
  explicit MetricsLog(const std::filesystem::path& path);

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;

 private:
  void write_line(const std::string& line);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace attend::train
