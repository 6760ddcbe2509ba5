#pragma once

#include "report/html.h"
#include "runs/run_overview.h"

#include <string>
#include <vector>

namespace attend::app {

/// Contents of the page of a comparison.
struct Comparison {
  std::vector<RunOverview> runs;  ///< each with a short and different `name`, such as "A first"
  std::vector<Cells> options;  ///< for each option that differs: its key, and its value in each run
  std::vector<Cells> results;  ///< for each result: its name, and its value in each run
  std::string note;            ///< about the results; may be empty
};

/// Returns the page of a comparison: the curves of the runs, and tables of what differs. Throws
/// InputError if metrics.jsonl of a run is damaged; the message names the file.
std::string comparison_page(const Comparison& comparison);

}  // namespace attend::app
