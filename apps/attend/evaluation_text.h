#pragma once

#include "attend/train/batch.h"
#include "attend/train/evaluation.h"
#include "attend/train/model.h"

#include <string>
#include <vector>

namespace attend::app {

/// Number of sequences in `batches` that ask for an answer: the denominator of the accuracy.
int64_t count_answers(const std::vector<train::Batch>& batches);

/// The number of targets of an evaluation: "111538 tokens", or "1000 sequences" for a classifier.
std::string targets_text(const train::Evaluation& evaluation, const train::Model& model);

/// The accuracy with counts: "97.3% (973/1000 sequences)". `total`: see `count_answers`.
std::string accuracy_text(double accuracy, int64_t total);

}  // namespace attend::app
