#include "attend/train/objective.h"

namespace attend::train {
namespace {

/// Replaces `matrix` by the sum of the matrices of all processes. In a process without a batch, it
/// is undefined.
void sum_matrices(Processes& processes, torch::Tensor& matrix) {
  if (processes.world_size() == 1) return;
  auto sizes = torch::zeros({processes.world_size()}, torch::kLong);
  if (matrix.defined()) sizes[processes.rank()] = matrix.size(0);
  processes.all_reduce(sizes);
  const auto size = sizes.max().item<int64_t>();
  if (size == 0) return;
  matrix = matrix.defined() ? matrix.cpu().contiguous() : torch::zeros({size, size}, torch::kLong);
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
  sum_matrices(processes, result.confusion_matrix);
  result.loss /= static_cast<double>(result.num_targets);
  return result;
}

}  // namespace attend::train
