#pragma once

#include "attend/train/loss_curves.h"

#include <cstddef>
#include <string>
#include <vector>

namespace attend::app {

/// The losses of a run in a chart.
struct ChartCurve {
  std::string mark;  ///< character with which the curve is drawn, with or without a color
  std::vector<train::LossPoint> points;
};

/// Draws loss curves by step, as text of 14 lines with at most `width` columns (at least 40). Where
/// several curves have the same place, their marks alternate. Returns an empty string if no curve
/// has a point.
std::string loss_chart(const std::vector<ChartCurve>& curves, std::size_t width);

/// Returns a line of at most `width` columns with the validation losses, or the losses of training
/// steps if there are fewer than 3 validation losses, as a row of bars, and their first and last
/// values if they fit. Without `utf8`, the bars are ASCII characters. Returns an empty string if
/// there are fewer than 3 losses.
///
///     "█▅▃▂▁ val loss 3.4156 to 2.6079 (steps 30 to 150)"
std::string loss_line(const train::LossCurves& curves, std::size_t width, bool utf8);

}  // namespace attend::app
