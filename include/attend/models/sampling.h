#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <optional>
#include <vector>

namespace attend {

/// Options of `sample`, applied in the order of the fields, as in Hugging Face's `generate`.
///
///     SamplingOptions{.temperature = 0.8, .top_p = 0.95}
struct SamplingOptions {
  double repetition_penalty = 1.0;  ///< positive; a value > 1 makes previous tokens less likely
  /// Size n of the n-grams that may occur only once in the sequence: no token is sampled that would
  /// complete an n-gram of `previous` again. 0 = off.
  int64_t no_repeat_ngram_size = 0;
  std::vector<int64_t> suppress_tokens = {};  ///< tokens that are never sampled
  double temperature = 1.0;                   ///< divides the logits, >= 0; 0 = greedy decoding
  int64_t top_k = 0;                          ///< sample from the k most likely tokens; 0 = off
  /// Nucleus sampling: sample from the smallest set of most likely tokens whose total probability
  /// is at least `top_p`. The value must be in [0, 1]; 1 = off, 0 = only the most likely token.
  double top_p = 1.0;
  /// Sample only from tokens whose probability is at least `min_p` times the probability of the
  /// most likely token. The value must be in [0, 1]; 0 = off.
  double min_p = 0.0;
};

/// Returns `logits` (V) with a repetition penalty for the tokens in `previous`: their positive
/// logits are divided by `penalty`, and their negative logits are multiplied by `penalty`. Each
/// token is penalized once, however often it occurs. Source: Keskar et al. 2019 (CTRL), section
/// 4.1; the rule for negative logits is from Hugging Face transformers.
ATTEND_API torch::Tensor penalize_repetition(const torch::Tensor& logits, at::IntArrayRef previous,
                                             double penalty);

/// Returns a copy of `logits` (V) in which the logits of `tokens` are -inf. If `tokens` is empty,
/// returns `logits`. Throws c10::ValueError if a token is not in [0, V).
ATTEND_API torch::Tensor suppress_tokens(const torch::Tensor& logits, at::IntArrayRef tokens);

/// Returns the tokens that would complete an n-gram of `ngram_size` tokens that `previous` already
/// contains, each once. Returns no tokens if `ngram_size` is 0. Source: Paulus et al. 2017, A Deep
/// Reinforced Model for Abstractive Summarization, section 2.5.
///
///     repeated_ngram_tokens({1, 2, 3, 1, 2}, 3) == std::vector<int64_t>{3};
ATTEND_API std::vector<int64_t> repeated_ngram_tokens(at::IntArrayRef previous, int64_t ngram_size);

/// Returns (`logits` - m) / `temperature`, where m is the largest of the `logits` (V), and
/// `temperature` > 0. The subtraction of m does not change the probabilities and prevents overflow
/// at very low temperatures.
ATTEND_API torch::Tensor with_temperature(const torch::Tensor& logits, double temperature);

/// Returns a copy of `logits` (V) in which all but the `k` largest logits are -inf. If `k` is 0 or
/// >= V, returns `logits`. Among equal logits, the logits of the lower token ids are kept.
ATTEND_API torch::Tensor keep_top_k(const torch::Tensor& logits, int64_t k);

/// Returns a copy of `logits` (V) in which the logit of each token outside of the nucleus is -inf.
/// The nucleus is the smallest set of most likely tokens whose total probability is at least `p`;
/// it has at least one token. If `p` >= 1, returns `logits`. Among equal logits, the logits of the
/// lower token ids are kept. Source: Holtzman et al. 2020, The Curious Case of Neural Text
/// Degeneration.
ATTEND_API torch::Tensor keep_top_p(const torch::Tensor& logits, double p);

/// Returns a copy of `logits` (V) in which the logit of a token is -inf if its probability is less
/// than `p` times the probability of the most likely token. Source: Nguyen et al. 2024, min-p
/// sampling.
ATTEND_API torch::Tensor keep_min_p(const torch::Tensor& logits, double p);

/// Returns a token id sampled from `logits` (V), which may have any floating dtype and device, and
/// may contain -inf. First applies the repetition penalty to the tokens in `previous`, the token
/// ids of the sequence so far, and suppresses `suppress_tokens` and the tokens of repeated n-grams.
/// If `temperature` is 0, returns the token with the highest logit
/// (greedy decoding). Otherwise applies the temperature and the filters `top_k`, `top_p` and
/// `min_p`, and samples from the remaining tokens. `generator` is a CPU generator; by default
/// LibTorch's global generator. Throws c10::ValueError if an option is out of range or if all
/// tokens are suppressed, and c10::Error if the largest logit is not finite, for example because
/// training diverged.
///
///     auto token = sample(logits[0][-1], {.temperature = 0.8, .top_k = 40}, previous);
ATTEND_API int64_t sample(const torch::Tensor& logits, const SamplingOptions& options = {},
                          at::IntArrayRef previous = {},
                          const std::optional<torch::Generator>& generator = std::nullopt);

}  // namespace attend
