#pragma once

#include "attend/train/recipe.h"
#include "support/seed.h"

#include <initializer_list>

namespace attend {

/// Returns true with probability `percent` / 100.
inline bool draw_chance(int64_t percent) {
  return draw(1, 100) <= percent;
}

/// Returns one of `values`.
template <typename T>
T draw_one_of(std::initializer_list<T> values) {
  return values.begin()[draw(0, static_cast<int64_t>(values.size()) - 1)];
}

/// Returns one of the enumerators of `E`.
template <typename E>
E draw_enum() {
  return static_cast<E>(draw(0, static_cast<int64_t>(EnumNames<E>::names.size()) - 1));
}

/// Draws a small stack: each option is the default in about half of all stacks, and any two options
/// that fit together meet. Dropout and gradient checkpointing are off.
StackConfig draw_stack_config();

/// Draws a config of a small model of any kind.
train::ModelConfig draw_model_config();

}  // namespace attend
