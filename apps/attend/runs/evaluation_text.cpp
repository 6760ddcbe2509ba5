#include "runs/evaluation_text.h"

#include "attend/io/utf8.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/entities.h"
#include "attend/train/example_task.h"
#include "terminal/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace attend::app {
namespace {

constexpr std::size_t kMaxClasses = 50;  // in the table of metrics
constexpr std::size_t kMaxColumns = 20;  // classes in the confusion matrix

/// Returns the indices of at most `count` classes with the most texts, in ascending order.
std::vector<std::size_t> most_frequent(const std::vector<train::ClassMetrics>& classes,
                                       std::size_t count) {
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](auto i) { return classes[i].support; });
  order.resize(std::min(order.size(), count));
  std::ranges::sort(order);
  return order;
}

/// Returns the rows and columns `shown` of a confusion matrix. If these are not all classes, a
/// last column contains the number of predictions of the others.
std::string table_of(const torch::Tensor& confusion_matrix, const std::vector<std::string>& classes,
                     const std::vector<std::size_t>& shown) {
  constexpr std::size_t kMaxName = 20;
  const auto name_of = [&](auto i) { return shorten_middle(printable(classes[i]), kMaxName); };
  const bool cut = shown.size() < classes.size();
  std::vector<std::vector<std::string>> rows{{""}};
  for (const auto i : shown) rows[0].push_back(name_of(i));
  if (cut) rows[0].emplace_back("other");
  for (const auto i : shown) {
    const auto counts = confusion_matrix[static_cast<int64_t>(i)];  // (C)
    auto others = counts.sum().item<int64_t>();
    rows.push_back({name_of(i)});
    for (const auto j : shown) {
      const auto count = counts[static_cast<int64_t>(j)].item<int64_t>();
      rows.back().push_back(fmt::format("{}", count));
      others -= count;
    }
    if (cut) rows.back().push_back(fmt::format("{}", others));
  }
  return table_text(rows, "<>");
}

/// Returns the confusion matrix of the most frequent classes, as many as fit in `width` columns.
std::string matrix_text(const torch::Tensor& confusion_matrix,
                        const std::vector<train::ClassMetrics>& metrics,
                        const std::vector<std::string>& classes, std::size_t width) {
  auto count = std::min(classes.size(), kMaxColumns);
  const auto table_of_most_frequent = [&] {
    return table_of(confusion_matrix, classes, most_frequent(metrics, count));
  };
  auto table = table_of_most_frequent();
  while (longest_line(table) > width && count > 1) {
    --count;
    table = table_of_most_frequent();
  }
  return fmt::format("confusion matrix (row = true class, column = predicted class{})\n{}",
                     count == classes.size() ? ""
                                             : fmt::format("; the {} most frequent of {} classes",
                                                           count, classes.size()),
                     table);
}

}  // namespace

std::string targets_text(const train::Evaluation& evaluation, const Model& model) {
  const auto* classifier = std::get_if<SequenceClassifier>(&model);
  const bool sequences = classifier != nullptr && !(*classifier)->config.predicts_tokens();
  return fmt::format("{} {}", evaluation.num_targets, sequences ? "sequences" : "tokens");
}

std::string accuracy_text(const train::ExactMatch& matches, const Model& model) {
  const auto* classifier = std::get_if<SequenceClassifier>(&model);
  const bool tokens = classifier != nullptr && (*classifier)->config.predicts_tokens();
  return fmt::format("{:.1f}% ({}/{} {})", matches.accuracy().value_or(0.0) * 100, matches.correct,
                     matches.total, tokens ? "tokens" : "sequences");
}

const char* f1_name(const std::vector<std::string>& classes, train::ProblemType type) {
  return has_entities(classes, type) ? "entity f1" : "macro f1";
}

bool has_entities(const std::vector<std::string>& classes, train::ProblemType type) {
  return type == train::ProblemType::token_classification && !train::entity_types(classes).empty();
}

std::string truncation_text(int64_t num_truncated, int64_t num_texts, const train::Run& run) {
  const auto max_seq_len = run.recipe.max_seq_len();
  const auto limit = train::max_text_tokens(*run.tokenizer, max_seq_len);
  const bool right = run.recipe.data.truncate == train::TruncationSide::right;
  return fmt::format("{} of {} texts to their {} {} tokens", num_truncated, num_texts,
                     right ? "first" : "last", limit);
}

std::string unknown_text(int64_t num_unknown, int64_t num_texts) {
  return fmt::format("{} of {} texts, which contain no token of the vocabulary", num_unknown,
                     num_texts);
}

std::string class_metrics_text(const torch::Tensor& confusion_matrix,
                               const std::vector<std::string>& classes, std::size_t width) {
  const auto all = train::class_metrics(confusion_matrix);
  const auto shown = most_frequent(all, kMaxClasses);
  std::vector<std::vector<std::string>> metrics{{"class", "precision", "recall", "f1", "support"}};
  for (const auto i : shown) {
    const auto& each = all[i];
    metrics.push_back({printable(classes[i]), fmt::format("{:.4f}", each.precision),
                       fmt::format("{:.4f}", each.recall), fmt::format("{:.4f}", each.f1),
                       fmt::format("{}", each.support)});
  }
  const auto hidden = classes.size() - shown.size();
  const auto more =
      hidden == 0
          ? ""
          : fmt::format("{} more classes, of at most as many texts, are in the output of --json\n",
                        hidden);
  const auto text = table_text(metrics, "<>") + more;
  if (confusion_matrix.dim() == 3) return text;  // multi-label
  return fmt::format("{}\n{}", text, matrix_text(confusion_matrix, all, classes, width));
}

}  // namespace attend::app
