#pragma once

#include "report/html.h"
#include "runs/run_overview.h"

#include <filesystem>
#include <string>
#include <vector>

namespace attend::app {

/// A run of a comparison.
struct PageRun {
  std::string label;                ///< short and different for each run, such as "A first"
  std::filesystem::path directory;  ///< directory of the run
  RunState state = RunState::finished;
};

/// Contents of the page of a comparison.
struct Comparison {
  std::vector<PageRun> runs;
  std::vector<Cells> options;  ///< for each option that differs: its key, and its value in each run
  std::vector<Cells> results;  ///< for each result: its name, and its value in each run
  std::string note;            ///< about the results; may be empty
};

/// Returns the page of a comparison: the curves of the runs, and tables of what differs. Throws
/// InputError if metrics.jsonl of a run is damaged; the message names the file.
std::string comparison_page(const Comparison& comparison);

}  // namespace attend::app
