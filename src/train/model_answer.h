#pragma once

#include "attend/io/tokenizer.h"
#include "attend/train/model.h"
#include "attend/train/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attend::train {

/// Answer of a model with its tokens.
struct ModelAnswer {
  std::string text;
  std::vector<int64_t> prompt_tokens;
  std::vector<int64_t> tokens;  ///< tokens that the model generated; none for a classifier
};

/// Returns the model's answer to the prompt of an example. Has the same requirements as `answer`.
ModelAnswer model_answer(Model& model, const Tokenizer& tokenizer,
                         const std::vector<std::string>& classes, const Example& example);

}  // namespace attend::train
