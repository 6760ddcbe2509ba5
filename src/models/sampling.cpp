#include "attend/models/sampling.h"

#include "models/check_sampling.h"
#include "models/decoding.h"
#include "nn/checks.h"
#include "resolved.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace attend {
namespace {

constexpr double kFilteredOut = -std::numeric_limits<double>::infinity();

void check_fraction(const char* option, double value) {
  TORCH_CHECK_VALUE(value >= 0.0 && value <= 1.0, option, " (", value, ") must be in [0, 1]");
}

/// Returns the token ids (V), sorted by descending logit. Ids with equal logits are ascending.
torch::Tensor ranking(const torch::Tensor& logits) {
  return logits.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
}

/// Returns a copy of `logits` (V) in which the logits of all tokens except `tokens` are -inf.
torch::Tensor keep(const torch::Tensor& logits, const torch::Tensor& tokens) {
  return torch::full_like(logits, kFilteredOut)
      .index_copy(0, tokens, logits.index_select(0, tokens));
}

/// Returns the first token with the highest logit. `logits` (V): float64, on the CPU. Throws
/// c10::Error if a logit is NaN or the highest logit is infinite.
int64_t greedy_token(const torch::Tensor& logits) {
  // A loop, because two operators and their results take longer for a small vocabulary.
  const auto values = contiguous_on_cpu(logits);
  const auto* value = values.const_data_ptr<double>();
  int64_t best = 0;
  for (int64_t i = 1; i < values.numel() && !std::isnan(value[best]); ++i) {
    if (!(value[i] <= value[best])) best = i;  // larger, or NaN
  }
  check_highest_logit(value[best]);
  return best;
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  TORCH_CHECK_VALUE(options.repetition_penalty > 0.0 && std::isfinite(options.repetition_penalty),
                    "repetition_penalty (", options.repetition_penalty,
                    ") must be positive and finite");
  TORCH_CHECK_VALUE(options.temperature >= 0.0 && std::isfinite(options.temperature),
                    "temperature (", options.temperature, ") must be finite and >= 0");
  check_not_negative("no_repeat_ngram_size", options.no_repeat_ngram_size);
  check_not_negative("top_k", options.top_k);
  check_fraction("top_p", options.top_p);
  check_fraction("min_p", options.min_p);
}

torch::Tensor without_suppressed(const torch::Tensor& logits, const SamplingOptions& options,
                                 at::IntArrayRef previous) {
  return suppress_tokens(suppress_tokens(logits, options.suppress_tokens),
                         repeated_ngram_tokens(previous, options.no_repeat_ngram_size));
}

void throw_all_suppressed(const SamplingOptions& options) {
  C10_THROW_ERROR(
      ValueError,
      c10::str("no token is left: suppress_tokens (", options.suppress_tokens.size(),
               " tokens) and no_repeat_ngram_size (", options.no_repeat_ngram_size,
               ") exclude all tokens of the vocabulary, expected at least one that may follow"));
}

torch::Tensor penalize_repetition(const torch::Tensor& logits, at::IntArrayRef previous,
                                  double penalty) {
  if (penalty == 1.0 || previous.empty()) return logits;
  const auto tokens = torch::tensor(previous, torch::kLong).to(logits.device());
  const auto penalized = logits.index_select(0, tokens);
  return logits.index_copy(0, tokens,
                           torch::where(penalized > 0, penalized / penalty, penalized * penalty));
}

torch::Tensor suppress_tokens(const torch::Tensor& logits, at::IntArrayRef tokens) {
  if (tokens.empty()) return logits;
  for (const auto token : tokens) {
    TORCH_CHECK_VALUE(token >= 0 && token < logits.size(0), "suppress_tokens: found the token ",
                      token, ", expected token ids from 0 to ", logits.size(0) - 1);
  }
  const auto index = torch::tensor(tokens, torch::kLong).to(logits.device());
  return logits.index_fill(0, index, kFilteredOut);
}

std::vector<int64_t> repeated_ngram_tokens(at::IntArrayRef previous, int64_t ngram_size) {
  check_not_negative("ngram_size", ngram_size);
  const auto size = static_cast<std::size_t>(ngram_size);
  if (size == 0 || previous.size() < size) return {};
  const auto prefix =
      previous.slice(previous.size() + 1 - size);  // of the n-gram that the next token completes
  std::set<int64_t> tokens;
  for (std::size_t end = size - 1; end < previous.size(); ++end) {
    if (previous.slice(end - prefix.size(), prefix.size()) == prefix) tokens.insert(previous[end]);
  }
  return {tokens.begin(), tokens.end()};
}

torch::Tensor with_temperature(const torch::Tensor& logits, double temperature) {
  return (logits - logits.max()) / temperature;
}

torch::Tensor keep_top_k(const torch::Tensor& logits, int64_t k) {
  if (k == 0 || k >= logits.size(0)) return logits;
  return keep(logits, ranking(logits).slice(0, 0, k));
}

torch::Tensor keep_top_p(const torch::Tensor& logits, double p) {
  if (p >= 1.0) return logits;  // rounding errors must not drop tokens
  const auto ranked = ranking(logits);
  const auto probabilities = logits.index_select(0, ranked).softmax(0);
  const auto cumulative_before = probabilities.cumsum(0) - probabilities;
  const auto count = cumulative_before.lt(p).sum().item<int64_t>();
  return keep(logits, ranked.slice(0, 0, std::max<int64_t>(count, 1)));
}

torch::Tensor keep_min_p(const torch::Tensor& logits, double p) {
  return logits.masked_fill(logits < logits.max() + std::log(p), kFilteredOut);
}

int64_t sample(const torch::Tensor& logits, const SamplingOptions& options,
               at::IntArrayRef previous, const std::optional<torch::Generator>& generator) {
  check_sampling(options);
  TORCH_CHECK_VALUE(logits.dim() == 1 && logits.size(0) > 0,
                    "logits must have shape (V) with V >= 1, found ", logits.sizes());
  // The probabilities are computed in float64. In float32, rounding errors of the cumulative sum in
  // keep_top_p could exceed small probabilities.
  auto filtered = penalize_repetition(logits.to(torch::kCPU, torch::kDouble), previous,
                                      options.repetition_penalty);
  if (!options.suppress_tokens.empty() || options.no_repeat_ngram_size > 0) {
    filtered = without_suppressed(checked_logits(filtered), options, previous);
    if (filtered.max().item<double>() == kFilteredOut) throw_all_suppressed(options);
  }
  if (options.temperature == 0.0) return greedy_token(filtered);
  filtered = with_temperature(checked_logits(filtered), options.temperature);
  filtered = keep_top_k(filtered, options.top_k);
  filtered = keep_top_p(filtered, options.top_p);
  filtered = keep_min_p(filtered, options.min_p);
  return filtered.softmax(0).multinomial(1, /*replacement=*/false, generator).item<int64_t>();
}

}  // namespace attend
