#pragma once

#include "attend/models/language_model.h"

#include <functional>
#include <optional>
#include <vector>

namespace attend::inline models {

/// How the next token is chosen from the model's scores.
struct GenerationOptions {
  int64_t max_new_tokens = 200;  ///< not negative
  double temperature = 1.0;      ///< divides the scores; 0 takes the likeliest token each time
  int64_t top_k = 0;             ///< draw from the k likeliest tokens only; 0 = from all
};

/// Continues `prompt`, token by token; of a text longer than the model's context it sees the end.
/// Runs in eval mode, without gradients. `on_token`, if given, hears each new token at once.
/// Draws from `generator`, a CPU one, or from LibTorch's global one. Returns the new tokens. Throws
/// c10::ValueError for an empty prompt or an option out of range.
///
///     auto tokens = generate(model, {7, 3}, {.max_new_tokens = 20});
std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerationOptions& options = {},
                              const std::optional<torch::Generator>& generator = std::nullopt,
                              const std::function<void(int64_t)>& on_token = {});

}  // namespace attend::inline models
