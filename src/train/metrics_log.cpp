#include "attend/train/metrics_log.h"

#include "train/json_lines.h"

#include <nlohmann/json.hpp>

namespace attend::train {
MetricsLog::MetricsLog(const std::filesystem::path& path, int64_t resumed_step)
    : file_(std::make_shared<AppendFile>(
          open_json_lines(path, resumed_step == 0 ? -1 : resumed_step))) {}

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
