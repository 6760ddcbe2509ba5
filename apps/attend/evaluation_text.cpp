#include "evaluation_text.h"

#include "attend/train/confusion_matrix.h"
#include "io/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::app {

std::string targets_text(const train::Evaluation& evaluation, const train::Model& model) {
  const bool classifier = std::holds_alternative<SequenceClassifier>(model);
  return fmt::format("{} {}", evaluation.num_targets, classifier ? "sequences" : "tokens");
}

std::string accuracy_text(const train::ExactMatch& matches) {
  return fmt::format("{:.1f}% ({}/{} sequences)", matches.accuracy().value_or(0.0) * 100,
                     matches.correct, matches.total);
}

std::string class_metrics_text(const torch::Tensor& confusion_matrix,
                               const std::vector<std::string>& classes) {
  constexpr std::size_t kMinWidth = 5;  // of "class", and of counts in the matrix
  std::vector<std::string> names;
  for (const auto& name : classes) names.push_back(printable(name));
  std::size_t width = kMinWidth;
  for (const auto& name : names) width = std::max(width, name.size());

  auto text = fmt::format("{:<{}}  precision  recall      f1  support\n", "class", width);
  const auto metrics = train::class_metrics(confusion_matrix);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& each = metrics.at(i);
    text += fmt::format("{:<{}}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>7}\n", names[i], width,
                        each.precision, each.recall, each.f1, each.support);
  }

  text += fmt::format("\nconfusion matrix (row = true class, column = predicted class)\n{:<{}}", "",
                      width);
  for (const auto& name : names) text += fmt::format("  {:>{}}", name, kMinWidth);
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("\n{:<{}}", names[i], width);
    const auto row = confusion_matrix[static_cast<int64_t>(i)];
    for (std::size_t j = 0; j < names.size(); ++j) {
      text += fmt::format("  {:>{}}", row[static_cast<int64_t>(j)].item<int64_t>(),
                          std::max(kMinWidth, names[j].size()));
    }
  }
  return text + "\n";
}

}  // namespace attend::app
