#include "report/comparison_page.h"

#include "attend/train/run_directory.h"
#include "report/encoding.h"
#include "report/metrics_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace attend::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxValue = 1000;  // bytes of the value of an option

/// Returns a table with a column for each run.
std::string table_of_runs(const std::string& caption, const Comparison& comparison,
                          std::vector<Cells> rows) {
  if (rows.empty()) return "";
  Cells header{""};
  for (const auto& run : comparison.runs) header.push_back(run.name);
  for (auto& row : rows) {
    for (auto& cell : row) cell = shortened(cell, kMaxValue);
  }
  return html_table(caption, header, rows);
}

std::string runs_content(const Comparison& comparison) {
  std::vector<Cells> runs;
  for (const auto& run : comparison.runs)
    runs.push_back({run.name, run.directory.string(), std::string(to_string(run.state))});
  auto html = html_table("Directories", {"", "directory", "state"}, runs) +
              table_of_runs("Options that differ", comparison, comparison.options) +
              table_of_runs("Results (* = best)", comparison, comparison.results);
  if (!comparison.note.empty()) html += fmt::format("<p>{}</p>\n", escaped_html(comparison.note));
  return html;
}

}  // namespace

std::string comparison_page(const Comparison& comparison) {
  const auto title = fmt::format("Comparison of {} runs", comparison.runs.size());
  // The page has about as many rows of metrics as the page of one run.
  const auto max_rows = kMaxMetricsRows / comparison.runs.size();
  ordered_json json{{"title", title}, {"comparison", ordered_json::array()}};
  std::vector<std::string> notes;
  std::string tables;
  for (const auto& run : comparison.runs) {
    std::vector<std::string> reductions;
    const auto path = run.directory / train::RunFiles::metrics;
    const auto metrics = metrics_of(path, run.state == RunState::finished, max_rows, reductions);
    for (const auto& reduction : reductions) notes.push_back(run.name + ": " + reduction);
    ordered_json entry{{"label", run.name}};
    entry.update(metrics.columns);
    tables += columns_table(run.name + ": evaluations", entry, "evaluations");
    json["comparison"].push_back(std::move(entry));
  }
  json["notes"] = notes;
  return html_page(fmt::format("<h1>{}</h1>\n", title) +
                       html_section("runs", "Runs", runs_content(comparison)) +
                       html_section("comparison", "Curves", tables),
                   json);
}

}  // namespace attend::app
