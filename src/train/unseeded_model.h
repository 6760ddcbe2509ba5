#pragma once

#include "attend/train/model.h"

namespace attend::train {

/// As `make_model`, without seeding LibTorch's generators.
Model make_unseeded_model(const Recipe& recipe, int64_t vocab_size, std::size_t num_classes);

}  // namespace attend::train
