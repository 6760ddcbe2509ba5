#pragma once

#include "report/html.h"
#include "runs/run_overview.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace attend::app {

/// End of the text of the best result.
inline constexpr const char* kBestMark = " *";

/// True if the losses of all runs are means over the same targets: the runs have the same data and
/// the same tokenizer.
bool have_same_data(const std::vector<RunOverview>& runs);

/// Returns the keys of the recipe whose values differ.
std::vector<std::string> differing_keys(const std::vector<RunOverview>& runs);

/// Returns a row for each option that differs: its key, and its value in each run.
std::vector<Cells> option_rows(const std::vector<RunOverview>& runs);

/// Returns a row for each result: its name, and its value in each run. The best ends with
/// `kBestMark`. If `same_data` is false, no loss or accuracy is the best.
std::vector<Cells> result_rows(const std::vector<RunOverview>& runs, bool same_data);

/// Returns the best run for each result that has one: the key of the result in summary.json, and
/// the index of the run.
std::vector<std::pair<std::string, std::size_t>> best_runs(const std::vector<RunOverview>& runs,
                                                           bool same_data);

}  // namespace attend::app
