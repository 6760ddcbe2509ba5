#include "attend/train/confusion_matrix.h"

namespace attend::train {
namespace {

double quotient(int64_t numerator, int64_t denominator) {
  return denominator == 0 ? 0.0 : static_cast<double>(numerator) / static_cast<double>(denominator);
}

bool is_multi_label(const torch::Tensor& matrix) {
  return matrix.dim() == 3;
}

/// Numbers of samples of each class or label, (C) int64.
struct Counts {
  torch::Tensor correct;
  torch::Tensor samples;
  torch::Tensor predicted;
};

Counts counts_of(const torch::Tensor& matrix) {
  if (!is_multi_label(matrix)) return {matrix.diagonal(), matrix.sum(1), matrix.sum(0)};
  const auto hits = matrix.select(1, 1).select(1, 1);  // (C)
  return {hits, matrix.select(1, 1).sum(1), matrix.select(2, 1).sum(1)};
}

}  // namespace

torch::Tensor confusion_matrix(const torch::Tensor& predicted, const torch::Tensor& targets,
                               int64_t num_classes) {
  const auto cells = (targets * num_classes + predicted).to(torch::kCPU);  // (B)
  return cells.bincount(/*weights=*/{}, num_classes * num_classes)
      .view({num_classes, num_classes});  // (C, C)
}

torch::Tensor multi_label_confusion_matrix(const torch::Tensor& predicted,
                                           const torch::Tensor& targets) {
  const auto count = [](const torch::Tensor& cells) { return cells.sum(0); };
  const auto hits = count(predicted & targets);                          // (C)
  const auto false_alarms = count(predicted & targets.logical_not());    // (C)
  const auto misses = count(predicted.logical_not() & targets);          // (C)
  const auto rest = count(predicted.logical_or(targets).logical_not());  // (C)
  return torch::stack({rest, false_alarms, misses, hits}, -1)            // (C, 4)
      .view({-1, 2, 2})
      .to(torch::kCPU);  // (C, 2, 2)
}

std::vector<ClassMetrics> class_metrics(const torch::Tensor& matrix) {
  const auto counts = counts_of(matrix);
  std::vector<ClassMetrics> metrics;
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    const auto hits = counts.correct[i].item<int64_t>();
    const auto support = counts.samples[i].item<int64_t>();
    const auto predictions = counts.predicted[i].item<int64_t>();
    metrics.push_back({.precision = quotient(hits, predictions),
                       .recall = quotient(hits, support),
                       .f1 = quotient(2 * hits, support + predictions),
                       .support = support});
  }
  return metrics;
}

double macro_f1(const torch::Tensor& matrix) {
  const auto metrics = class_metrics(matrix);
  double sum = 0.0;
  for (const auto& each : metrics) sum += each.f1;  // 0 for a class without samples
  if (is_multi_label(matrix)) return sum / static_cast<double>(metrics.size());
  const auto [correct, samples, predicted] = counts_of(matrix);
  return sum / static_cast<double>((samples + predicted).gt(0).sum().item<int64_t>());
}

double micro_f1(const torch::Tensor& matrix) {
  const auto [correct, samples, predicted] = counts_of(matrix);
  return quotient(2 * correct.sum().item<int64_t>(), (samples + predicted).sum().item<int64_t>());
}

}  // namespace attend::train
