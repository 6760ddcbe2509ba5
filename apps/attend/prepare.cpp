#include "prepare.h"

#include "attend/train/device.h"

#include <torch/utils.h>

namespace attend::app {

Prepared prepare(const train::Recipe& recipe) {
  use_threads(recipe.training.threads);
  const auto device = train::find_device(recipe.training.device);
  auto task = train::make_task(recipe);
  auto model = train::make_model(recipe, task->tokenizer().size(), task->classes().size());
  train::module_of(model).to(device);
  return {device, std::move(task), std::move(model)};
}

void use_threads(int64_t threads) {
  if (threads > 0) torch::set_num_threads(static_cast<int>(threads));
}

}  // namespace attend::app
