#include "attend/train/objective.h"

#include "attend/train/confusion_matrix.h"
#include "attend/train/regression_metrics.h"

#include <algorithm>
#include <numeric>

namespace attend::train {
namespace {

/// Replaces `matrix` by the sum of the matrices of all processes. In a process without a batch, it
/// is undefined.
void sum_matrices(Processes& processes, torch::Tensor& matrix) {
  if (processes.world_size() == 1) return;
  constexpr int64_t kMaxDim = 3;
  auto shapes = torch::zeros({processes.world_size(), kMaxDim}, torch::kLong);
  for (int64_t i = 0; matrix.defined() && i < matrix.dim(); ++i)
    shapes[processes.rank()][i] = matrix.size(i);
  processes.all_reduce(shapes);
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < kMaxDim; ++i) {
    const auto size = shapes.select(1, i).max().item<int64_t>();
    if (size > 0) shape.push_back(size);
  }
  if (shape.empty()) return;
  matrix = matrix.defined() ? matrix.cpu().contiguous() : torch::zeros(shape, torch::kLong);
  processes.all_reduce(matrix);
}

}  // namespace

Evaluation evaluate_in_batches(int64_t num_batches, const EvaluationOptions& options,
                               const std::function<Evaluation(int64_t index)>& evaluate) {
  auto& processes = *options.processes;
  const auto size = processes.world_size();
  const auto chosen = spread(num_batches, options.max_batches);
  const auto count = std::ssize(chosen);
  auto losses = torch::zeros({count}, torch::kDouble);
  auto moments = torch::zeros({count, kNumMoments}, torch::kDouble);
  Evaluation result{.is_partial = count < num_batches};
  for (int64_t first = 0; first < count; first += size) {
    if (any_process(processes, options.stop_requested())) break;
    if (const auto own = first + processes.rank(); own < count) {
      const auto batch = evaluate(chosen[static_cast<std::size_t>(own)]);
      losses[own] = batch.loss;
      result.num_targets += batch.num_targets;
      result.exact_match += batch.exact_match;
      auto& matrix = result.confusion_matrix;
      if (batch.confusion_matrix.defined())
        matrix = matrix.defined() ? matrix + batch.confusion_matrix : batch.confusion_matrix;
      if (batch.moments.defined()) moments[own].copy_(batch.moments);
    }
    if (options.on_batch) options.on_batch(std::min(first + size, count), count);
  }
  // Each loss is that of one process, and 0 in the others. The losses are added in the order of the
  // batches, so that the rounding errors do not depend on the number of processes.
  processes.all_reduce(losses);
  for (int64_t i = 0; i < count; ++i) result.loss += losses[i].item<double>();
  auto counts = torch::tensor(
      {result.num_targets, result.exact_match.correct, result.exact_match.total}, torch::kLong);
  processes.all_reduce(counts);
  result.num_targets = counts[0].item<int64_t>();
  result.exact_match = {counts[1].item<int64_t>(), counts[2].item<int64_t>()};
  processes.all_reduce(moments);
  if (moments.select(1, 0).gt(0).any().item<bool>()) result.moments = moments.sum(0);  // (8)
  sum_matrices(processes, result.confusion_matrix);
  if (result.confusion_matrix.defined()) result.f1 = macro_f1(result.confusion_matrix);
  result.loss /= static_cast<double>(result.num_targets);
  return result;
}

Evaluation evaluate_samples(
    int64_t count, const EvaluationOptions& options,
    const std::function<TrainingLoss(const std::vector<std::size_t>& indices)>& loss) {
  const auto batches = (count + kEvalBatchSize - 1) / kEvalBatchSize;
  return evaluate_in_batches(batches, options, [&](int64_t index) {
    const auto first = index * kEvalBatchSize;
    std::vector<std::size_t> indices(
        static_cast<std::size_t>(std::min(kEvalBatchSize, count - first)));
    std::iota(indices.begin(), indices.end(), static_cast<std::size_t>(first));
    const auto found = loss(indices);
    Evaluation result{.loss = found.sum.item<double>(), .num_targets = std::ssize(indices)};
    if (found.exact_match) result.exact_match = found.exact_match();
    return result;
  });
}

}  // namespace attend::train
