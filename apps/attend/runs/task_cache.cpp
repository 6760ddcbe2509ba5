#include "runs/task_cache.h"

#include "recipes/recipe_files.h"

namespace attend::app {

std::shared_ptr<const train::Task> TaskCache::operator()(
    const train::Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer) {
  auto values = recipe;
  values.training = {};
  values.stack() = {};
  make_paths_absolute(values);
  Key key{.recipe = train::to_toml(values), .max_text_bytes = recipe.data.max_text_bytes};
  if (tokenizer != nullptr) key.tokenizer = tokenizer->files();
  if (task_ == nullptr || key != key_) {
    task_.reset();  // before the next task is made, since both may need much memory
    task_ = train::make_task(recipe, std::move(tokenizer));
    key_ = std::move(key);
  }
  return task_;
}

}  // namespace attend::app
