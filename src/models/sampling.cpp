#include "attend/models/sampling.h"

#include "nn/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_share(const char* option, double value) {
  TORCH_CHECK_VALUE(value >= 0.0 && value <= 1.0, option, " (", value, ") must be in [0, 1]");
}

/// The tokens (V), highest score first; of equal ones, the lower token.
torch::Tensor ranking(const torch::Tensor& scores) {
  return scores.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
}

/// `scores` of these tokens, and -inf for all others.
torch::Tensor keep(const torch::Tensor& scores, const torch::Tensor& tokens) {
  return torch::full_like(scores, kNever).index_copy(0, tokens, scores.index_select(0, tokens));
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  TORCH_CHECK_VALUE(options.repetition_penalty > 0.0 && std::isfinite(options.repetition_penalty),
                    "repetition_penalty (", options.repetition_penalty,
                    ") must be positive and finite");
  TORCH_CHECK_VALUE(options.temperature >= 0.0 && std::isfinite(options.temperature),
                    "temperature (", options.temperature, ") must be finite and not negative");
  check_not_negative("top_k", options.top_k);
  check_share("top_p", options.top_p);
  check_share("min_p", options.min_p);
}

torch::Tensor penalize_repetition(const torch::Tensor& scores, at::IntArrayRef previous,
                                  double penalty) {
  if (penalty == 1.0 || previous.empty()) return scores;
  const auto tokens = torch::tensor(previous, torch::kLong).to(scores.device());
  const auto theirs = scores.index_select(0, tokens);
  return scores.index_copy(0, tokens, torch::where(theirs > 0, theirs / penalty, theirs * penalty));
}

torch::Tensor with_temperature(const torch::Tensor& scores, double temperature) {
  return (scores - scores.max()) / temperature;
}

torch::Tensor keep_top_k(const torch::Tensor& scores, int64_t k) {
  if (k == 0 || k >= scores.size(0)) return scores;
  return keep(scores, ranking(scores).slice(0, 0, k));
}

torch::Tensor keep_top_p(const torch::Tensor& scores, double p) {
  if (p >= 1.0) return scores;  // rounding must not drop the last tokens
  const auto ranked = ranking(scores);
  const auto probabilities = scores.index_select(0, ranked).softmax(0);
  const auto of_those_before = probabilities.cumsum(0) - probabilities;
  const auto count = of_those_before.lt(p).sum().item<int64_t>();
  return keep(scores, ranked.slice(0, 0, std::max<int64_t>(count, 1)));
}

torch::Tensor keep_min_p(const torch::Tensor& scores, double p) {
  return scores.masked_fill(scores < scores.max() + std::log(p), kNever);
}

int64_t sample(const torch::Tensor& scores, const SamplingOptions& options,
               at::IntArrayRef previous, const std::optional<torch::Generator>& generator) {
  check_sampling(options);
  TORCH_CHECK_VALUE(scores.dim() == 1 && scores.size(0) > 0, "scores must be (V), found ",
                    scores.sizes());
  // In double: a sum of many small probabilities would be off by more than some of them.
  auto kept = penalize_repetition(scores.to(torch::kCPU, torch::kDouble), previous,
                                  options.repetition_penalty);
  const auto highest = kept.max().item<double>();
  TORCH_CHECK(!std::isnan(highest),
              "the scores must not hold NaN: the model may have diverged in training");
  TORCH_CHECK(std::isfinite(highest), "the highest score must be finite, found ", highest);
  if (options.temperature == 0.0) return kept.argmax().item<int64_t>();
  kept = with_temperature(kept, options.temperature);
  kept = keep_top_k(kept, options.top_k);
  kept = keep_top_p(kept, options.top_p);
  kept = keep_min_p(kept, options.min_p);
  return kept.softmax(0).multinomial(1, /*replacement=*/false, generator).item<int64_t>();
}

}  // namespace attend
