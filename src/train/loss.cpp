#include "attend/train/loss.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "ops/cross_entropy.h"
#include "train/problem_rules.h"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

namespace attend::train {

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                          double label_smoothing, const torch::Tensor& class_weights) {
  namespace F = torch::nn::functional;
  const auto rows = logits.flatten(0, -2);  // (targets, V)
  if (label_smoothing > 0.0 || class_weights.defined()) {
    const auto type = torch::promoteTypes(logits.scalar_type(), torch::kFloat);
    return F::cross_entropy(
        rows.to(type), targets.flatten(),
        F::CrossEntropyFuncOptions()
            .weight(class_weights.defined() ? class_weights.to(type) : torch::Tensor())
            .ignore_index(kIgnoreIndex)
            .reduction(torch::kSum)
            .label_smoothing(label_smoothing));
  }
  return summed_cross_entropy(rows, targets.flatten(), kIgnoreIndex);
}

torch::Tensor class_weights(const std::string& spec, const torch::Tensor& counts) {
  if (spec == "none") return {};
  const auto samples = counts.to(torch::kDouble);  // (C)
  torch::Tensor weights;                           // (C)
  if (spec == "balanced") {
    weights = 1.0 / samples.clamp_min(1.0);
  } else {
    std::vector<double> numbers;
    std::istringstream parts(spec);
    for (std::string part; std::getline(parts, part, ',');) {
      double number = 0.0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (error != std::errc() || end != part.data() + part.size() || !(number > 0.0) ||
          !std::isfinite(number)) {
        throw InputError(fmt::format(
            "class_weights is '{}', expected none, balanced or positive numbers separated by "
            "commas",
            printable(spec)));
      }
      numbers.push_back(number);
    }
    if (std::ssize(numbers) != counts.size(0)) {
      throw InputError(
          fmt::format("class_weights has {} numbers ('{}'), expected {}: one for each "
                      "class",
                      numbers.size(), printable(spec), counts.size(0)));
    }
    weights = torch::tensor(numbers, torch::kDouble);
  }
  return (weights * samples.sum() / weights.dot(samples)).to(torch::kFloat);
}

int64_t num_targets(const Batch& batch) {
  return rules_of(batch.problem.type).num_targets(with_int64(batch));
}

TrainingLoss classification_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                                 const torch::Tensor& class_weights) {
  return {.sum = summed_loss(logits, targets, /*label_smoothing=*/0.0, class_weights),
          .exact_match = [=] {
            const auto correct = logits.argmax(-1).eq(targets);  // (B)
            return ExactMatch{correct.sum().item<int64_t>(), correct.numel()};
          }};
}

TrainingLoss multi_label_loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  TORCH_CHECK_VALUE(logits.sizes() == targets.sizes(),
                    "targets must have the shape of the logits, ", logits.sizes(), ", found ",
                    targets.sizes());
  const auto type = torch::promoteTypes(logits.scalar_type(), torch::kFloat);
  const auto losses = torch::binary_cross_entropy_with_logits(logits.to(type), targets.to(type), {},
                                                              {}, at::Reduction::None);  // (B, C)
  return {.sum = losses.mean(-1).sum(), .exact_match = [=] {
            const auto equal = label_probabilities(logits).ge(0.5).eq(targets.gt(0.5));  // (B, C)
            return ExactMatch{equal.all(-1).sum().item<int64_t>(), equal.size(0)};
          }};
}

TrainingLoss regression_loss(const torch::Tensor& predicted, const torch::Tensor& targets) {
  TORCH_CHECK_VALUE(predicted.sizes() == targets.sizes(),
                    "targets must have the shape of the predictions, ", predicted.sizes(),
                    ", found ", targets.sizes());
  const auto type = torch::promoteTypes(predicted.scalar_type(), torch::kFloat);
  const auto errors = (predicted.to(type) - targets.to(type)).square();  // (B, ...)
  return {.sum = errors.flatten(1).mean(-1).sum()};
}

torch::Tensor label_probabilities(const torch::Tensor& logits) {
  return logits.sigmoid();
}

}  // namespace attend::train
