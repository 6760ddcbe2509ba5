#include "train/problem_rules.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/entities.h"
#include "attend/train/loss.h"
#include "attend/train/regression_metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace attend::train {
namespace {

int64_t index_of(const std::string& label, const Example& example,
                 const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, label);
  if (found != classes.end()) return found - classes.begin();
  throw InputError(fmt::format("example '{}': unknown class '{}'", example.prompt, label));
}

int64_t number_of_rows(const Batch& batch) {
  return batch.targets.size(0);
}

// ---- single-label classification, and the tokens of other models

torch::Tensor class_targets(const std::vector<Example>& examples,
                            const std::vector<std::string>& classes) {
  std::vector<int64_t> targets;
  for (const auto& example : examples)
    targets.push_back(index_of(example.answer, example, classes));
  return torch::tensor(targets, torch::kLong);  // (B)
}

int64_t number_of_tokens(const Batch& batch) {
  return batch.targets.ne(kIgnoreIndex).sum().item<int64_t>();
}

torch::Tensor class_loss(const torch::Tensor& logits, const Batch& batch, double label_smoothing,
                         const torch::Tensor& class_weights) {
  return summed_loss(logits, batch.targets, label_smoothing, class_weights);
}

ExactMatch class_matches(const torch::Tensor& logits, const Batch& batch) {
  if (!batch.answers.defined()) return {};
  const auto wrong = logits.argmax(-1).ne(batch.targets).logical_and(batch.answers);
  const auto rows = batch.answers.view({batch.answers.size(0), -1});  // (B, T) or (B, 1)
  const auto total = rows.any(-1);                                    // (B)
  const auto correct = total.logical_and(wrong.view_as(rows).any(-1).logical_not());
  return {.correct = correct.sum().item<int64_t>(), .total = total.sum().item<int64_t>()};
}

void measure_classes(const torch::Tensor& logits, const Batch& batch, Evaluation& evaluation) {
  evaluation.confusion_matrix = confusion_matrix(logits.argmax(-1), batch.targets, logits.size(-1));
}

torch::Tensor class_predictions(const torch::Tensor& logits) {
  return logits.softmax(-1);
}

std::string class_answer(const torch::Tensor& predictions, const std::vector<std::string>& classes,
                         const Problem& /*problem*/) {
  return classes.at(static_cast<std::size_t>(predictions.argmax().item<int64_t>()));
}

// ---- multi-label classification

torch::Tensor label_targets(const std::vector<Example>& examples,
                            const std::vector<std::string>& classes) {
  auto targets = torch::zeros({std::ssize(examples), std::ssize(classes)});  // (B, C)
  auto cells = targets.accessor<float, 2>();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (const auto& label : examples[i].labels)
      cells[static_cast<int64_t>(i)][index_of(label, examples[i], classes)] = 1.0f;
  }
  return targets;
}

torch::Tensor label_loss(const torch::Tensor& logits, const Batch& batch,
                         double /*label_smoothing*/, const torch::Tensor& /*class_weights*/) {
  return multi_label_loss(logits, batch.targets).sum;
}

/// Returns true for each predicted label, (B, C).
torch::Tensor predicted_labels(const torch::Tensor& logits, const Problem& problem) {
  return label_probabilities(logits).ge(problem.threshold);
}

ExactMatch label_matches(const torch::Tensor& logits, const Batch& batch) {
  const auto equal = predicted_labels(logits, batch.problem).eq(batch.targets.gt(0.5));  // (B, C)
  return {.correct = equal.all(-1).sum().item<int64_t>(), .total = number_of_rows(batch)};
}

void measure_labels(const torch::Tensor& logits, const Batch& batch, Evaluation& evaluation) {
  evaluation.confusion_matrix =
      multi_label_confusion_matrix(predicted_labels(logits, batch.problem), batch.targets.gt(0.5));
}

std::string label_answer(const torch::Tensor& predictions, const std::vector<std::string>& classes,
                         const Problem& problem) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (predictions[static_cast<int64_t>(i)].item<double>() >= problem.threshold)
      labels.push_back(classes[i]);
  }
  return labels_text(labels);
}

// ---- regression

torch::Tensor number_targets(const std::vector<Example>& examples,
                             const std::vector<std::string>& /*classes*/) {
  std::vector<float> targets;
  for (const auto& example : examples)
    targets.push_back(static_cast<float>(number_label(example.answer)));
  return torch::tensor(targets).unsqueeze(-1);  // (B, 1)
}

torch::Tensor number_loss(const torch::Tensor& logits, const Batch& batch,
                          double /*label_smoothing*/, const torch::Tensor& /*class_weights*/) {
  return regression_loss(logits, batch.targets).sum;
}

ExactMatch no_matches(const torch::Tensor& /*logits*/, const Batch& /*batch*/) {
  return {};
}

void measure_numbers(const torch::Tensor& logits, const Batch& batch, Evaluation& evaluation) {
  evaluation.moments = regression_moments(logits.flatten(), batch.targets.flatten());
}

torch::Tensor number_predictions(const torch::Tensor& logits) {
  return logits;
}

std::string number_answer(const torch::Tensor& predictions,
                          const std::vector<std::string>& /*classes*/, const Problem& /*problem*/) {
  return fmt::format("{:.4g}", predictions.item<double>());
}

// ---- tags of words, and masked tokens

/// The targets of words depend on the tokens, so the task makes them.
torch::Tensor no_targets(const std::vector<Example>& /*examples*/,
                         const std::vector<std::string>& /*classes*/) {
  C10_THROW_ERROR(ValueError, "the targets of tokens are not those of examples");
}

ExactMatch token_matches(const torch::Tensor& logits, const Batch& batch) {
  const auto correct = logits.argmax(-1).eq(batch.targets).logical_and(batch.answers);  // (B, T)
  return {.correct = correct.sum().item<int64_t>(), .total = batch.answers.sum().item<int64_t>()};
}

void measure_tags(const torch::Tensor& logits, const Batch& batch, Evaluation& evaluation) {
  const auto predicted = logits.argmax(-1);  // (B, T)
  const auto& tags = batch.problem.tags;
  evaluation.confusion_matrix =
      entity_types(tags).empty()
          ? confusion_matrix(predicted.masked_select(batch.answers),
                             batch.targets.masked_select(batch.answers), logits.size(-1))
          : entity_confusion_matrix(predicted, batch.targets, tags);
}

void measure_nothing(const torch::Tensor& /*logits*/, const Batch& /*batch*/,
                     Evaluation& /*evaluation*/) {}

constexpr std::array kRules{ProblemRules{class_targets, number_of_tokens, class_loss, class_matches,
                                         measure_classes, class_predictions, class_answer},
                            ProblemRules{label_targets, number_of_rows, label_loss, label_matches,
                                         measure_labels, label_probabilities, label_answer},
                            ProblemRules{number_targets, number_of_rows, number_loss, no_matches,
                                         measure_numbers, number_predictions, number_answer},
                            ProblemRules{no_targets, number_of_tokens, class_loss, token_matches,
                                         measure_tags, class_predictions, class_answer},
                            ProblemRules{no_targets, number_of_tokens, class_loss, token_matches,
                                         measure_nothing, class_predictions, class_answer}};

}  // namespace

const ProblemRules& rules_of(ProblemType type) {
  return kRules.at(static_cast<std::size_t>(type));
}

double number_label(const std::string& label) {
  const auto begin = label.find_first_not_of(' ');
  const auto end = label.find_last_not_of(' ');
  double number = NAN;
  if (begin != label.npos) {
    const auto* last = label.data() + end + 1;
    const auto [stop, error] = std::from_chars(label.data() + begin, last, number);
    if (error != std::errc() || stop != last) number = NAN;
  }
  constexpr double kLargest = std::numeric_limits<float>::max();  // targets are float32
  if (std::abs(number) <= kLargest) return number;
  throw InputError(fmt::format("the label is '{}', expected a number between {:.4g} and {:.4g}",
                               printable(label), -kLargest, kLargest));
}

std::string labels_text(const std::vector<std::string>& labels) {
  return labels.empty() ? "(none)" : fmt::format("{}", fmt::join(labels, ", "));
}

}  // namespace attend::train
