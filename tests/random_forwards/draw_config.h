#pragma once

#include "attend/train/recipe.h"
#include "support/seed.h"

#include <initializer_list>

namespace attend {

/// Returns true with a probability of `percent` / 100.
inline bool draw_chance(int64_t percent) {
  return draw(1, 100) <= percent;
}

/// Draws one of `values`.
template <typename T>
T draw_one_of(std::initializer_list<T> values) {
  return values.begin()[draw(0, static_cast<int64_t>(values.size()) - 1)];
}

/// Draws an enumerator of `E`.
template <typename E>
E draw_enum() {
  return static_cast<E>(draw(0, static_cast<int64_t>(EnumNames<E>::names.size()) - 1));
}

/// Draws the config of a small stack. Each drawn config leaves many options at their defaults. Any
/// two compatible options can occur together. Dropout and gradient checkpointing are off.
StackConfig draw_stack_config();

/// Draws the config of a small language model, classifier or encoder-decoder model.
ModelConfig draw_model_config();

}  // namespace attend
