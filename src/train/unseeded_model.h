#pragma once

#include "attend/train/model.h"

namespace attend::train {

/// Like `make_model`, but does not seed LibTorch's generators.
Model make_unseeded_model(const Recipe& recipe, int64_t vocab_size, std::size_t num_classes);

}  // namespace attend::train
