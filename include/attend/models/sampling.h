#pragma once

#include <torch/types.h>

#include <optional>

namespace attend {

/// How a token is chosen from a model's scores. The steps are taken in the order of these fields,
/// which is that of Hugging Face: repetition_penalty, temperature, top_k, top_p, min_p.
///
///     SamplingOptions{.temperature = 0.8, .top_p = 0.95}
struct SamplingOptions {
  double repetition_penalty = 1.0;  ///< positive; above 1 makes earlier tokens less likely
  double temperature = 1.0;         ///< divides the scores; 0 takes the likeliest token each time
  int64_t top_k = 0;                ///< draw from the k likeliest tokens only; 0 = from all
  double top_p = 1.0;  ///< from the fewest tokens that together have this probability, 0 to 1
  double min_p = 0.0;  ///< from those with this share of the likeliest's probability, 0 to 1
};

/// Throws c10::ValueError, naming option and value, if one is out of range.
void check_sampling(const SamplingOptions& options);

// The steps. Each takes the scores (V) of all tokens and returns new ones; what is not to be drawn
// gets -inf. Where tokens with equal scores cannot all be kept, the lower ones are.

/// Divides the scores of the tokens in `previous` by `penalty`, or multiplies those below 0; once,
/// however often a token is there (Keskar et al. 2019, CTRL, section 4.1, and for scores below 0
/// Hugging Face, since division would raise these).
torch::Tensor penalize_repetition(const torch::Tensor& scores, at::IntArrayRef previous,
                                  double penalty);

/// Divides by `temperature`, positive; the highest score becomes 0, which changes no probability
/// and lets the temperature be as low as it likes.
torch::Tensor with_temperature(const torch::Tensor& scores, double temperature);

/// Keeps the `k` highest scores; all of them if `k` is 0 or V or more.
torch::Tensor keep_top_k(const torch::Tensor& scores, int64_t k);

/// Keeps the fewest tokens, the likeliest first, whose probabilities reach `p`, but one at least
/// (Holtzman et al. 2020, nucleus sampling).
torch::Tensor keep_top_p(const torch::Tensor& scores, double p);

/// Keeps the tokens whose probability is at least `p` times the greatest (Nguyen et al. 2024).
torch::Tensor keep_min_p(const torch::Tensor& scores, double p);

/// All steps, then a draw from `generator`, a CPU one, or from LibTorch's global one. `scores` (V),
/// of any float dtype and on any device, may hold -inf; `previous` are the tokens of the text so
/// far. Throws c10::ValueError for an option out of range, c10::Error if the highest score is not
/// finite, as those of a model that has diverged.
///
///     auto token = sample(logits[0][-1], {.temperature = 0.8, .top_k = 40}, text);
int64_t sample(const torch::Tensor& scores, const SamplingOptions& options = {},
               at::IntArrayRef previous = {},
               const std::optional<torch::Generator>& generator = std::nullopt);

}  // namespace attend
