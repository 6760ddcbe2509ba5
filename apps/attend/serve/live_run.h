#pragma once

#include "attend/train/run_directory.h"
#include "report/write_report.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace attend::app {

/// A run whose files may change, since a process may be training it. All functions may be called by
/// several threads; one report or explanation is computed at a time. They throw InputError if the
/// directory is not a run, or if a file of the run is damaged.
class LiveRun {
 public:
  /// State of the files of a run from which its report is made.
  struct Version {
    std::uintmax_t metrics_size = 0;  ///< of metrics.jsonl, in bytes
    std::string files;                ///< differs if one of the other files differs

    /// Parses the result of `text`. Returns a version that no run has if the text is another.
    static Version parse(const std::string& text);
    /// Returns the version as text without spaces, such as "1024-9f86d081884c7d65".
    std::string text() const;
    bool operator==(const Version&) const = default;
  };

  explicit LiveRun(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Returns the present version of the run.
  Version version() const;
  /// Returns the report of the run as it is now. The report of a damaged run is tried again when a
  /// file has changed, and every 5 s, since the version does not contain each file.
  std::shared_ptr<const ServedReport> report();
  /// Explains how the model processes a text, with the newest weights of the run. `request` is a
  /// JSON object with the key `text`. Returns a JSON object: the steps as in a page of
  /// `attend explain`, with at most 10 MB, the attention weights of all layers and heads as in a
  /// report, the tokens or classes with the highest probabilities, and the answer of a Seq2Seq.
  /// Throws InputError if the request has another form, or a text that `ExplainedText` refuses or
  /// that has more than 256 tokens.
  std::string explain(const std::string& request);

  /// Returns server-sent events about the changes since the version `shown`, which a page shows:
  /// `metrics` with a line of metrics.jsonl, or `data` with the whole data of the report. Empty if
  /// nothing has changed. Sets `shown` to the version after these changes.
  std::string changes_since(Version& shown);

 private:
  /// Returns an event for each new line of metrics.jsonl.
  std::string new_metrics(Version& shown) const;
  /// Returns the run with its newest weights, which are loaded if they have changed.
  train::Run& loaded_run();

  std::filesystem::path directory_;
  std::mutex mutex_;  // guards the members below, and the memory and time of computations
  Version version_;   // of `report_` or `damage_`
  std::shared_ptr<const ServedReport> report_;
  std::exception_ptr damage_;                       // null if `report_` was made
  std::chrono::steady_clock::time_point next_try_;  // after `damage_`
  std::optional<train::Run> run_;
  std::string run_files_;  // `Version::files` of `run_`
};

}  // namespace attend::app
