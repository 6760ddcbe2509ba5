#include "evaluation_text.h"

#include "attend/train/confusion_matrix.h"
#include "io/utf8.h"
#include "table_text.h"

#include <fmt/format.h>

namespace attend::app {

std::string targets_text(const train::Evaluation& evaluation, const train::Model& model) {
  const bool classifier = std::holds_alternative<SequenceClassifier>(model);
  return fmt::format("{} {}", evaluation.num_targets, classifier ? "sequences" : "tokens");
}

std::string accuracy_text(const train::ExactMatch& matches) {
  return fmt::format("{:.1f}% ({}/{} sequences)", matches.accuracy().value_or(0.0) * 100,
                     matches.correct, matches.total);
}

std::string truncation_text(int64_t num_truncated, int64_t num_texts, const train::Recipe& recipe) {
  const bool right = recipe.data.truncate == train::TruncationSide::right;
  return fmt::format("{} of {} texts to their {} {} tokens", num_truncated, num_texts,
                     right ? "first" : "last", recipe.max_seq_len());
}

std::string class_metrics_text(const torch::Tensor& confusion_matrix,
                               const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> metrics{{"class", "precision", "recall", "f1", "support"}};
  std::vector<std::vector<std::string>> matrix{{""}};
  for (const auto& name : classes) matrix[0].push_back(printable(name));
  for (const auto& each : train::class_metrics(confusion_matrix)) {
    const auto& name = matrix[0][metrics.size()];
    const auto counts = confusion_matrix[static_cast<int64_t>(metrics.size()) - 1];
    metrics.push_back({name, fmt::format("{:.4f}", each.precision),
                       fmt::format("{:.4f}", each.recall), fmt::format("{:.4f}", each.f1),
                       fmt::format("{}", each.support)});
    matrix.push_back({name});
    for (int64_t i = 0; i < counts.size(0); ++i)
      matrix.back().push_back(fmt::format("{}", counts[i].item<int64_t>()));
  }
  return fmt::format("{}\nconfusion matrix (row = true class, column = predicted class)\n{}",
                     table_text(metrics, "<>"), table_text(matrix, "<>"));
}

}  // namespace attend::app
std::string unknown_text(int64_t num_unknown, int64_t num_texts) {
  return fmt::format("{} of {} texts, which contain no token of the vocabulary", num_unknown,
                     num_texts);
}

