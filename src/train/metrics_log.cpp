#include "attend/train/metrics_log.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend::train {

MetricsLog::MetricsLog(const std::filesystem::path& path) : path_(path), file_(path) {
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

void MetricsLog::on_progress(const Progress& progress) {
  const nlohmann::ordered_json line{{"step", progress.step},
                                    {"loss", progress.loss},
                                    {"learning_rate", progress.learning_rate},
                                    {"gradient_norm", progress.gradient_norm},
                                    {"seconds", progress.seconds},
                                    {"tokens_per_second", progress.tokens_per_second}};
  write_line(line.dump());
}

void MetricsLog::on_evaluation(int64_t step, const Evaluation& evaluation) {
  nlohmann::ordered_json line{{"step", step}, {"val_loss", evaluation.loss}};
  if (evaluation.accuracy) line["val_accuracy"] = *evaluation.accuracy;
  write_line(line.dump());
}

void MetricsLog::write_line(const std::string& line) {
  file_ << line << std::endl;  // flushed: a run that is stopped keeps its lines
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_.string()));
}

}  // namespace attend::train
