#pragma once

#include "attend/models/model.h"
#include "attend/train/evaluation.h"
#include "attend/train/run_directory.h"

#include <string>
#include <vector>

namespace attend::app {

/// The number of targets of an evaluation: "111538 tokens", or "1000 sequences" for a classifier of
/// sequences.
std::string targets_text(const train::Evaluation& evaluation, const Model& model);

/// The accuracy with counts: "97.3% (973/1000 sequences)", or tokens of a classifier of tokens.
std::string accuracy_text(const train::ExactMatch& matches, const Model& model);

/// True if a model predicts tags of entities, so that the metrics are those of entities.
bool has_entities(const std::vector<std::string>& classes, train::ProblemType type);

/// The name of `Evaluation::f1`.
const char* f1_name(const std::vector<std::string>& classes, train::ProblemType type);

/// A table with the precision, recall, F1 and support of each class, and the confusion matrix. If
/// there are many classes, only those with the most texts are shown; the matrix contains only as
/// many as fit in `width` columns.
std::string class_metrics_text(const torch::Tensor& confusion_matrix,
                               const std::vector<std::string>& classes, std::size_t width);

/// Returns a text such as "3 of 10 texts to their first 128 tokens".
std::string truncation_text(int64_t num_truncated, int64_t num_texts, const train::Run& run);

/// Returns a text such as "3 of 10 texts, which contain no token of the vocabulary".
std::string unknown_text(int64_t num_unknown, int64_t num_texts);

}  // namespace attend::app
