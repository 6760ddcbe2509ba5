#include "report/comparison.h"

#include "attend/train/run_directory.h"
#include "terminal/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace attend::app {
namespace {

/// A result in the table.
struct Result {
  enum class Best { none, lowest, highest };

  const char* label;
  const char* key;  ///< as in summary.json
  Best best;        ///< which value is marked
  bool is_metric;   ///< depends on the data, so that only values for the same data are compared
  std::optional<double> (*value)(const RunOverview& run);
  std::string (*text)(double value);
};

std::string four_decimals(double value) {
  return fmt::format("{:.4f}", value);
}

constexpr std::array kComparedResults{
    Result{"steps", "steps", Result::Best::none, false,
           [](const RunOverview& run) { return std::optional(static_cast<double>(run.steps)); },
           [](double value) { return fmt::format("{:.0f}", value); }},
    Result{"train loss", "train_loss", Result::Best::lowest, true,
           [](const RunOverview& run) { return run.train_loss; }, four_decimals},
    Result{"val loss", "val_loss", Result::Best::lowest, true,
           [](const RunOverview& run) { return run.val_loss; }, four_decimals},
    Result{"accuracy", "val_accuracy", Result::Best::highest, true,
           [](const RunOverview& run) { return run.val_accuracy; },
           [](double value) { return fmt::format("{:.1f}%", value * 100); }},
    Result{"parameters", "parameters", Result::Best::none, false,
           [](const RunOverview& run) {
             return run.parameters ? std::optional(static_cast<double>(*run.parameters))
                                   : std::nullopt;
           },
           count_text},
    Result{"seconds", "seconds", Result::Best::lowest, false,
           [](const RunOverview& run) { return run.seconds; },
           [](double value) { return fmt::format("{:.1f}", value); }},
    Result{"tok/s", "tokens_per_second", Result::Best::highest, false,
           [](const RunOverview& run) { return run.tokens_per_second; },
           [](double value) { return count_text(std::round(value)); }},
};

/// Returns the value of a key of the recipe as text; empty if the run has no such value.
std::string value_of(const RunOverview& run, const std::string& key) {
  const auto found = run.values.find(key);
  return found == run.values.end() ? std::string() : found->second;
}

/// Returns the checksums of the tokenizer's files.
std::map<std::string, std::string> tokenizer_files(const train::RunRecord& record) {
  auto files = record.files;
  files.erase(train::RunFiles::recipe);
  return files;
}

/// Returns the index of the best run; the number of runs if none is better than another.
std::size_t index_of_best(const std::vector<RunOverview>& runs, const Result& result,
                          bool same_data) {
  if (result.best == Result::Best::none || (result.is_metric && !same_data)) return runs.size();
  const double sign = result.best == Result::Best::lowest ? 1.0 : -1.0;
  auto best = runs.size();
  std::set<double> values;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto value = result.value(runs[i]);
    if (!value) continue;
    if (values.empty() || sign * *value < *values.begin()) best = i;
    values.insert(sign * *value);
  }
  return values.size() > 1 ? best : runs.size();
}

}  // namespace

std::vector<std::string> differing_keys(const std::vector<RunOverview>& runs) {
  std::set<std::string> keys;
  for (const auto& run : runs) {
    for (const auto& item : run.values) {
      const auto differs = [&](const auto& other) {
        return value_of(other, item.first) != item.second;
      };
      if (std::ranges::any_of(runs, differs)) keys.insert(item.first);
    }
  }
  return {keys.begin(), keys.end()};
}

bool have_same_data(const std::vector<RunOverview>& runs) {
  const auto& first = runs.front();
  return std::all_of(runs.begin(), runs.end(), [&](const auto& other) {
    return other.record.data_checksum == first.record.data_checksum &&
           tokenizer_files(other.record) == tokenizer_files(first.record) &&
           value_of(other, "task") == value_of(first, "task");
  });
}

std::vector<Cells> option_rows(const std::vector<RunOverview>& runs) {
  std::vector<Cells> rows;
  for (const auto& key : differing_keys(runs)) {
    rows.push_back({key});
    for (const auto& run : runs) {
      const auto value = value_of(run, key);
      rows.back().push_back(value.empty() ? "-" : value);
    }
  }
  return rows;
}

std::vector<Cells> result_rows(const std::vector<RunOverview>& runs, bool same_data) {
  std::vector<Cells> rows;
  for (const auto& result : kComparedResults) {
    const auto has_value = [&](const auto& run) { return result.value(run).has_value(); };
    if (std::none_of(runs.begin(), runs.end(), has_value)) continue;
    const auto best = index_of_best(runs, result, same_data);
    rows.push_back({result.label});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto value = result.value(runs[i]);
      rows.back().push_back((value ? result.text(*value) : "-") + (i == best ? kBestMark : ""));
    }
  }
  return rows;
}

std::vector<std::pair<std::string, std::size_t>> best_runs(const std::vector<RunOverview>& runs,
                                                           bool same_data) {
  std::vector<std::pair<std::string, std::size_t>> best;
  for (const auto& result : kComparedResults) {
    const auto index = index_of_best(runs, result, same_data);
    if (index < runs.size()) best.emplace_back(result.key, index);
  }
  return best;
}

}  // namespace attend::app
