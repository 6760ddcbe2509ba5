#include "evaluation_text.h"

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

}  // namespace attend::app
