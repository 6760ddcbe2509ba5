#pragma once

#include "attend/train/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"

#include <memory>

namespace attend::app {

/// What training a recipe takes.
struct Prepared {
  torch::Device device;
  std::unique_ptr<train::Task> task;
  train::Model model;  ///< with fresh weights, on the device
};

/// From here on LibTorch uses the threads of the recipe.
Prepared prepare(const train::Recipe& recipe);

/// From here on LibTorch uses so many CPU threads; 0 = as many as it takes by itself.
void use_threads(int64_t threads);

}  // namespace attend::app
