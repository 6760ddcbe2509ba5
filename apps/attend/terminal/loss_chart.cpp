#include "terminal/loss_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace attend::app {
namespace {

constexpr std::size_t kRows = 12;
constexpr std::size_t kMinPoints = 3;

using Points = std::vector<train::LossPoint>;

/// A range of numbers.
struct Range {
  double min = INFINITY;
  double max = -INFINITY;

  void add(double value) {
    min = std::min(min, value);
    max = std::max(max, value);
  }
  /// Returns the index from 0 to `count` - 1 that belongs to a value of the range.
  std::size_t index_of(double value, std::size_t count) const {
    const double position = (value - min) / (max - min);
    if (!std::isfinite(position)) return 0;  // all values are equal, or the range is too large
    return static_cast<std::size_t>(std::lround(position * static_cast<double>(count - 1)));
  }
};

/// Returns the loss in each of `count` columns from the first to the last step in `steps`: the mean
/// of the losses in the column, or, if it has none, a value on the line between the neighbors. The
/// value is NaN before the first and after the last loss.
std::vector<double> resample(const Points& points, const Range& steps, std::size_t count) {
  std::vector<double> sums(count);
  std::vector<double> counts(count);
  for (const auto& point : points) {
    const auto column = steps.index_of(static_cast<double>(point.step), count);
    sums[column] += point.loss;
    ++counts[column];
  }
  std::vector<double> values(count, NAN);
  std::size_t previous = count;
  for (std::size_t i = 0; i < count; ++i) {
    if (counts[i] == 0) continue;
    values[i] = sums[i] / counts[i];
    for (auto between = previous + 1; between < i; ++between) {
      const auto part = static_cast<double>(between - previous) / static_cast<double>(i - previous);
      values[between] = std::lerp(values[previous], values[i], part);
    }
    previous = i;
  }
  return values;
}

Range steps_of(const std::vector<ChartCurve>& curves) {
  Range steps;
  for (const auto& curve : curves) {
    for (const auto& point : curve.points) steps.add(static_cast<double>(point.step));
  }
  return steps;
}

/// Returns `points` as a row of bars with at most `columns` columns.
std::string bars(const Points& points, std::size_t columns, bool utf8) {
  constexpr std::array kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array kAsciiBars{"_", ".", "-", "=", "+", "*", "%", "#"};
  const auto values = resample(points, steps_of({{"", points}}), std::min(columns, points.size()));
  Range losses;
  for (const auto value : values) losses.add(value);
  std::string text;
  for (const auto value : values) {
    const auto level = losses.index_of(value, kBars.size());
    text += utf8 ? kBars[level] : kAsciiBars[level];
  }
  return text;
}

}  // namespace

std::string loss_chart(const std::vector<ChartCurve>& curves, std::size_t width) {
  const auto steps = steps_of(curves);
  if (steps.min > steps.max) return {};
  std::vector<std::vector<double>> values;
  Range losses;
  constexpr std::size_t kAxis = 3;    // " | "
  constexpr std::size_t kLabel = 10;  // room for a loss of five digits before the point
  const auto columns = width - kAxis - kLabel;
  for (const auto& curve : curves) {
    values.push_back(resample(curve.points, steps, columns));
    for (const auto value : values.back()) {
      if (!std::isnan(value)) losses.add(value);
    }
  }
  // The marks of the curves at each place, the lowest loss in the last row.
  std::vector<std::vector<std::vector<std::string>>> places(
      kRows, std::vector<std::vector<std::string>>(columns));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    for (std::size_t column = 0; column < columns; ++column) {
      if (std::isnan(values[i][column])) continue;
      const auto row = kRows - 1 - losses.index_of(values[i][column], kRows);
      places[row][column].push_back(curves[i].mark);
    }
  }
  const auto label_of = [&](std::size_t row) {
    if (row != 0 && row != kRows - 1 && row != kRows / 2) return std::string();
    const auto part = static_cast<double>(row) / static_cast<double>(kRows - 1);
    return fmt::format("{:.4f}", std::lerp(losses.max, losses.min, part));
  };
  std::string text;
  for (std::size_t row = 0; row < kRows; ++row) {
    auto line = fmt::format("{:>{}} | ", label_of(row), kLabel);
    std::size_t blanks = 0;  // not printed at the end of a line
    for (std::size_t column = 0; column < columns; ++column) {
      const auto& marks = places[row][column];
      if (marks.empty()) {
        ++blanks;
        continue;
      }
      line += std::string(std::exchange(blanks, 0), ' ') + marks[column % marks.size()];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += fmt::format("{:>{}} +-{}\n", "", kLabel, std::string(columns, '-'));
  const auto first = fmt::format("step {}", steps.min);
  text += fmt::format("{:>{}}   {}{:>{}}\n", "", kLabel, first, steps.max, columns - first.size());
  return text;
}

std::string loss_line(const train::LossCurves& curves, std::size_t width, bool utf8) {
  constexpr std::size_t kMaxBars = 24;
  const bool has_val = curves.val.size() >= kMinPoints;
  const auto& points = has_val ? curves.val : curves.train;
  if (points.size() < kMinPoints) return {};
  auto values = fmt::format(" {} loss {:.4f} to {:.4f}", has_val ? "val" : "train",
                            points.front().loss, points.back().loss);
  const auto steps = fmt::format(" (steps {} to {})", points.front().step, points.back().step);
  if (values.size() + steps.size() + kMaxBars <= width) values += steps;
  if (values.size() + kMinPoints > width) values.clear();
  const auto room = width - std::min(width, values.size());
  return bars(points, std::clamp(room, kMinPoints, kMaxBars), utf8) + values;
}

}  // namespace attend::app
