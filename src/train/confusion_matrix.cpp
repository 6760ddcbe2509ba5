#include "attend/train/confusion_matrix.h"

namespace attend::train {
namespace {

double quotient(int64_t numerator, int64_t denominator) {
  return denominator == 0 ? 0.0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

}  // namespace

torch::Tensor confusion_matrix(const torch::Tensor& predicted, const torch::Tensor& targets,
                               int64_t num_classes) {
  const auto cells = (targets * num_classes + predicted).to(torch::kCPU);  // (B)
  return cells.bincount(/*weights=*/{}, num_classes * num_classes)
      .view({num_classes, num_classes});  // (C, C)
}

std::vector<ClassMetrics> class_metrics(const torch::Tensor& matrix) {
  const auto samples = matrix.sum(1);      // (C)
  const auto predicted = matrix.sum(0);    // (C)
  const auto correct = matrix.diagonal();  // (C)
  std::vector<ClassMetrics> metrics;
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    const auto hits = correct[i].item<int64_t>();
    const auto support = samples[i].item<int64_t>();
    const auto predictions = predicted[i].item<int64_t>();
    metrics.push_back({.precision = quotient(hits, predictions),
                       .recall = quotient(hits, support),
                       .f1 = quotient(2 * hits, support + predictions),
                       .support = support});
  }
  return metrics;
}

}  // namespace attend::train
