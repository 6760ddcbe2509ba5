#pragma once

#include "attend/enum_names.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace attend::train {

/// Kind of the predictions of a classifier. The first three have the names of Hugging Face's
/// `problem_type`.
enum class ProblemType {
  single_label_classification,  ///< one class of C: softmax and cross-entropy
  multi_label_classification,   ///< any of C labels: sigmoids and binary cross-entropy
  regression,                   ///< a number: mean squared error
  token_classification,         ///< a tag of C for each word: softmax and cross-entropy
  masked_lm,                    ///< the masked tokens, of V: softmax and cross-entropy
};

/// What a model predicts. The batches of a task contain it, so that loss, metrics and predictions
/// follow from the same declaration.
///
///     Problem{.type = ProblemType::multi_label_classification, .threshold = 0.3};
struct Problem {
  ProblemType type = ProblemType::single_label_classification;  ///< kind of the predictions
  double threshold = 0.5;              ///< multi-label: smallest probability of a predicted label
  std::vector<std::string> tags = {};  ///< token classification: the tags by index
};

}  // namespace attend::train

namespace attend {

/// Names of `train::ProblemType`.
template <>
struct EnumNames<train::ProblemType> {
  static constexpr std::array<std::string_view, 5> names{"single_label_classification",
                                                         "multi_label_classification", "regression",
                                                         "token_classification", "masked_lm"};
};

}  // namespace attend
