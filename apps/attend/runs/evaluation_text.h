#pragma once

#include "attend/models/model.h"
#include "attend/train/evaluation.h"
#include "attend/train/recipe.h"

#include <string>
#include <vector>

namespace attend::app {

/// The number of targets of an evaluation: "111538 tokens", or "1000 sequences" for a classifier.
std::string targets_text(const train::Evaluation& evaluation, const Model& model);

/// The accuracy with counts: "97.3% (973/1000 sequences)".
std::string accuracy_text(const train::ExactMatch& matches);

/// A table with the precision, recall, F1 and support of each class, and the confusion matrix. If
/// there are many classes, only those with the most texts are shown; the matrix contains only as
/// many as fit in `width` columns.
std::string class_metrics_text(const torch::Tensor& confusion_matrix,
                               const std::vector<std::string>& classes, std::size_t width);

/// Returns a text such as "3 of 10 texts to their first 128 tokens".
std::string truncation_text(int64_t num_truncated, int64_t num_texts, const train::Recipe& recipe);

/// Returns a text such as "3 of 10 texts, which contain no token of the vocabulary".
std::string unknown_text(int64_t num_unknown, int64_t num_texts);

}  // namespace attend::app
