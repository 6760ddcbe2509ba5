#include "evaluation_text.h"

#include <fmt/format.h>

#include <cmath>

namespace attend::app {

int64_t count_answers(const std::vector<train::Batch>& batches) {
  int64_t total = 0;
  for (const auto& batch : batches) {
    if (!batch.answers.defined()) continue;
    total += batch.answers.view({batch.answers.size(0), -1}).any(-1).sum().item<int64_t>();
  }
  return total;
}

std::string targets_text(const train::Evaluation& evaluation, const train::Model& model) {
  const bool classifier = std::holds_alternative<SequenceClassifier>(model);
  return fmt::format("{} {}", evaluation.targets, classifier ? "sequences" : "tokens");
}

std::string accuracy_text(double accuracy, int64_t total) {
  const auto correct = std::llround(accuracy * static_cast<double>(total));
  return fmt::format("{:.1f}% ({}/{} sequences)", accuracy * 100, correct, total);
}

}  // namespace attend::app
