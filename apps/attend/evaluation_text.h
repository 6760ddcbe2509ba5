#pragma once

#include "attend/train/evaluation.h"
#include "attend/train/model.h"

#include <string>

namespace attend::app {

/// The number of targets of an evaluation: "111538 tokens", or "1000 sequences" for a classifier.
std::string targets_text(const train::Evaluation& evaluation, const train::Model& model);

/// The accuracy with counts: "97.3% (973/1000 sequences)".
std::string accuracy_text(const train::ExactMatch& matches);

}  // namespace attend::app
