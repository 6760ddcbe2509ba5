#include "attend/train/metrics_log.h"

#include "io/files.h"
#include "train/append_file.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace attend::train {
namespace {

/// True if a line is complete, and its step is at most `last_step`.
bool is_kept(const std::string& line, int64_t last_step) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto step = json.find("step");
  return step != json.end() && step->is_number_integer() && step->get<int64_t>() <= last_step;
}

/// Creates a new log if `resumed_step` is 0. Otherwise removes incomplete lines and lines of later
/// steps from the existing log, and opens the log for appending.
AppendFile open_log(const std::filesystem::path& path, int64_t resumed_step) {
  if (resumed_step == 0) return {path, "w"};
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_bytes(path));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      if (is_kept(line, resumed_step)) kept += line + "\n";
    }
    replace_file(path, kept);
  }
  return {path, "a"};
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t resumed_step)
    : file_(std::make_shared<AppendFile>(open_log(path, resumed_step))) {}

void MetricsLog::on_progress(const Progress& progress) {
  nlohmann::ordered_json line{{"step", progress.step}, {"train_loss", progress.train_loss}};
  if (progress.accuracy) line["train_accuracy"] = *progress.accuracy;
  line.update({{"lr", progress.lr},
               {"grad_norm", progress.grad_norm},
               {"seconds", progress.seconds},
               {"tokens_per_second", progress.tokens_per_second},
               {"peak_memory", progress.peak_memory},
               {"skipped_steps", progress.skipped_steps}});
  file_->append(line.dump() + "\n");
}

void MetricsLog::on_evaluation(int64_t step, const Evaluation& evaluation) {
  nlohmann::ordered_json line{
      {"step", step}, {"val_loss", evaluation.loss}, {"val_targets", evaluation.num_targets}};
  if (const auto accuracy = evaluation.accuracy()) line["val_accuracy"] = *accuracy;
  file_->append(line.dump() + "\n");
}

}  // namespace attend::train
