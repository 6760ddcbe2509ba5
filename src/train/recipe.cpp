#include "attend/train/recipe.h"

#include "attend/input_error.h"
#include "attend/train/recipe_fields.h"

namespace attend::train {

StackConfig& Recipe::stack() {
  return std::visit([](auto& config) -> StackConfig& { return config.stack; }, model);
}

const StackConfig& Recipe::stack() const {
  return std::visit([](const auto& config) -> const StackConfig& { return config.stack; }, model);
}

int64_t& Recipe::max_seq_len() {
  return std::visit([](auto& config) -> int64_t& { return config.max_seq_len; }, model);
}

int64_t Recipe::max_seq_len() const {
  return std::visit([](const auto& config) { return config.max_seq_len; }, model);
}

void check_recipe(const Recipe& recipe) {
  for (const auto& field : recipe_fields()) check_range(field, recipe, field.key);
  try {
    encoder_options(recipe.stack(), /*causal=*/true);
  } catch (const c10::ValueError& error) {
    // The message contains names of config fields. The recipe's keys have the same names.
    throw InputError(error.what_without_backtrace());
  }
}

void check_training_config(const TrainingConfig& config) {
  Recipe recipe;
  recipe.training = config;
  check_recipe(recipe);
}

}  // namespace attend::train
