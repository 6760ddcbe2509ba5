#include "explain/explanation_text.h"

#include "attend/io/utf8.h"
#include "terminal/heat_color.h"
#include "terminal/help_formatter.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

namespace attend::app {
namespace {

constexpr int64_t kMaxRows = 12;
constexpr int64_t kFewRows = 6;  // from here on, lines without numbers are left out first
constexpr int64_t kMinRows = 3;
constexpr const char* kHighlight = "\033[1;36m";

/// Returns the indices from 0 to `count` - 1 that are shown if there is room for `room`, and -1 for
/// each gap. If not all fit, shows the last one, `kept` (if it is an index) and the first ones.
std::vector<int64_t> shown_indices(int64_t count, int64_t room, int64_t kept) {
  constexpr int64_t kGaps = 2;
  std::set<int64_t> shown;
  if (count > room) {
    shown.insert(count - 1);
    if (kept < count) shown.insert(kept);
  }
  const auto wanted =
      static_cast<std::size_t>(count > room ? std::max(room - kGaps, kGaps) : count);
  for (int64_t i = 0; shown.size() < wanted; ++i) shown.insert(i);
  std::vector<int64_t> indices;
  for (const auto i : shown) {
    if (i > (indices.empty() ? 0 : indices.back() + 1)) indices.push_back(-1);
    indices.push_back(i);
  }
  return indices;
}

/// Returns the finite numbers of a matrix (R, C), scaled to the range from 0 to 1.
torch::Tensor heat_of(const torch::Tensor& values) {
  const auto finite = values.masked_select(values.isfinite());
  if (finite.numel() == 0) return values;
  const auto min = finite.min();
  const auto range = finite.max() - min;
  return (values - min) / range.clamp_min(1e-12);
}

std::string matrix_text(const LabelledMatrix& matrix, const Explanation& explanation,
                        std::size_t width, int64_t max_rows, const ExplanationColors& colors) {
  const auto values = matrix.values.to(torch::kCPU, torch::kDouble).contiguous();
  const auto find = [](const std::vector<std::string>& labels, const std::string& label) {
    return std::find(labels.begin(), labels.end(), label) - labels.begin();
  };
  const auto followed = matrix.by_token ? find(matrix.rows, explanation.token)
                                        : static_cast<std::ptrdiff_t>(matrix.rows.size());
  const auto cell = [&](int64_t row, int64_t column) {
    return fmt::format("{:.{}f}", values[row][column].item<double>(), explanation.decimals);
  };
  std::size_t label_width = 0;
  for (const auto& label : matrix.rows)
    label_width = std::max(label_width, printable(label).size());
  std::size_t number_width = fmt::format("{:.{}f}", -99.0, explanation.decimals).size();
  for (const auto& label : matrix.columns)
    number_width = std::max(number_width, printable(label).size());
  const auto room = (width - std::min(width, label_width + 2)) / (number_width + 2);
  const auto columns =
      shown_indices(values.size(1), static_cast<int64_t>(std::max<std::size_t>(room, 3)),
                    find(matrix.columns, matrix.column));
  const auto rows = shown_indices(values.size(0), max_rows, followed);

  std::vector<std::vector<std::string>> cells{{""}};
  for (const auto column : columns) {
    cells[0].push_back(column < 0 ? "..."
                                  : printable(matrix.columns[static_cast<std::size_t>(column)]));
  }
  for (const auto row : rows) {
    cells.push_back({row < 0 ? "..." : printable(matrix.rows[static_cast<std::size_t>(row)])});
    for (const auto column : columns)
      cells.back().push_back(row < 0 || column < 0 ? "..." : cell(row, column));
  }
  const auto heat = heat_of(values);
  const auto style = [&](std::size_t row, std::size_t column, const std::string& text) {
    const auto i = row == 0 ? -1 : rows[row - 1];
    const auto j = column == 0 ? -1 : columns[column - 1];
    const bool in_row = i >= 0 && i == followed;
    const bool in_column = row == 0 && j >= 0 && matrix.between_tokens && j == followed;
    if (colors.heat_map && matrix.between_tokens && i >= 0 && j >= 0 &&
        std::isfinite(values[i][j].item<double>())) {
      return on_heat_color(text, heat[i][j].item<double>(), in_row ? "1;" : "");
    }
    return colors.highlight && (in_row || in_column) ? kHighlight + text + kResetColor : text;
  };
  std::string text =
      fmt::format("{} ({} x {})\n", printable(matrix.name), values.size(0), values.size(1));
  std::istringstream lines(table_text(cells, "<>", style));
  for (std::string line; std::getline(lines, line);) text += fmt::format("  {}\n", line);
  return text;
}

/// Lines of text, with and without colors. Those without have the width that a terminal shows.
struct TextBox {
  std::vector<std::string> colored;
  std::vector<std::string> plain;

  std::size_t width() const {
    std::size_t width = 0;
    for (const auto& line : plain) width = std::max(width, line.size());
    return width;
  }

  /// Adds another box on the right side, after `gap` columns.
  void append(const TextBox& right, std::size_t gap) {
    const auto begin = width() + gap;
    const auto height = std::max(plain.size(), right.plain.size());
    colored.resize(height);
    plain.resize(height);
    for (std::size_t i = 0; i < right.plain.size(); ++i) {
      const std::string padding(begin - plain[i].size(), ' ');
      colored[i] += padding + right.colored[i];
      plain[i] += padding + right.plain[i];
    }
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// How the matrices of a step are arranged.
struct Layout {
  int64_t max_rows = kMaxRows;  ///< of a matrix
  bool side_by_side = false;    ///< matrices that fit in a line are side by side
  bool gaps = true;             ///< an empty line is in front of each matrix
};

std::string matrices_text(const std::vector<LabelledMatrix>& matrices,
                          const Explanation& explanation, std::size_t width, const Layout& layout,
                          const ExplanationColors& colors) {
  constexpr std::size_t kGap = 4;
  std::vector<TextBox> rows;
  for (const auto& matrix : matrices) {
    TextBox box{lines_of(matrix_text(matrix, explanation, width, layout.max_rows, colors)),
                lines_of(matrix_text(matrix, explanation, width, layout.max_rows, {}))};
    if (layout.side_by_side && !rows.empty() && rows.back().width() + kGap + box.width() <= width)
      rows.back().append(box, kGap);
    else
      rows.push_back(std::move(box));
  }
  std::string text;
  for (const auto& row : rows) {
    if (layout.gaps) text += "\n";
    for (const auto& line : row.colored) text += line + "\n";
  }
  return text;
}

std::string step_text(const Explanation& explanation, std::size_t index, std::size_t width,
                      const Layout& layout, const ExplanationColors& colors) {
  const auto& step = explanation.steps.at(index);
  const auto title =
      fmt::format("Step {}/{}  {}", index + 1, explanation.steps.size(), printable(step.title));
  std::string text =
      fmt::format("{}\n{}\n", title, std::string(std::min(title.size(), width), '-'));
  if (!step.formula.empty()) text += wrap(printable(step.formula), width, 2) + "\n";
  text += wrap(printable(step.description), width, 0) + "\n";
  text += matrices_text(step.matrices, explanation, width, layout, colors);
  if (!step.calculation.empty())
    text += "\n" + wrap(printable(step.calculation), width - 2, 2) + "\n";
  if (!step.conclusion.empty())
    text += "\n=> " + wrap(printable(step.conclusion), width - 3, 3) + "\n";
  return text;
}

}  // namespace

std::string step_text(const Explanation& explanation, std::size_t index, TextSize size,
                      const ExplanationColors& colors) {
  Layout layout;
  while (true) {
    const auto text = step_text(explanation, index, size.width, layout, colors);
    const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    if (size.height == 0 || lines <= size.height) return text;
    if (!layout.side_by_side)
      layout.side_by_side = true;
    else if (layout.max_rows > kFewRows)
      --layout.max_rows;
    else if (layout.gaps)
      layout.gaps = false;
    else if (layout.max_rows > kMinRows)
      --layout.max_rows;
    else
      return text;
  }
}

}  // namespace attend::app
