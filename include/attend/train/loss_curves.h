#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace attend::train {

/// A loss after a step.
struct LossPoint {
  int64_t step = 0;   ///< number of steps done
  double loss = 0.0;  ///< mean over the targets
};

/// The losses in a file that `MetricsLog` has written, in the order of the file.
struct LossCurves {
  std::vector<LossPoint> train;        ///< losses of training steps
  std::vector<LossPoint> val;          ///< validation losses
  int64_t steps = 0;                   ///< last step
  std::optional<double> seconds = {};  ///< wall time until the last progress report
  int64_t damaged = 0;                 ///< number of damaged lines, which are left out
};

/// Reads the losses from metrics.jsonl; there are none if the file is missing. Leaves out lines
/// that are incomplete, which a killed process leaves, and losses that are not finite. Unlike
/// `for_each_json_line`, also leaves out damaged lines: the curves are shown beside the results of
/// a run, which a damaged log must not hide. Throws InputError if the file cannot be read.
///
///     const auto last = read_loss_curves("runs/demo/metrics.jsonl").val.back().loss;
ATTEND_API LossCurves read_loss_curves(const std::filesystem::path& metrics);

}  // namespace attend::train
