#include "attend/train/masked_tokens.h"

namespace attend::train {

Batch mask_tokens(const torch::Tensor& tokens, const torch::Tensor& maskable,
                  const MaskingOptions& options, torch::Generator& generator) {
  const auto uniform = [&] { return torch::rand(tokens.sizes(), generator); };
  const auto counts = maskable.sum(-1, /*keepdim=*/true);  // (B, 1)
  const auto wanted = (counts * options.probability).round().clamp_min(1);
  // The ranks of random numbers are a random order. Tokens that may not be chosen come last.
  const auto rank = uniform()
                        .masked_fill(maskable.logical_not(), 2.0)
                        .argsort(-1, /*descending=*/false)
                        .argsort(-1, /*descending=*/false);   // (B, T)
  const auto chosen = rank.lt(wanted).logical_and(maskable);  // (B, T)
  const auto action = uniform();
  const auto random = torch::randint(options.vocab_size, tokens.sizes(), generator,
                                     torch::TensorOptions(torch::kLong));
  const auto changed = torch::where(action.lt(0.8), torch::full_like(tokens, options.mask_token),
                                    torch::where(action.lt(0.9), random, tokens));
  Batch batch{.tokens = torch::where(chosen, changed, tokens),
              .targets = tokens.masked_fill(chosen.logical_not(), kIgnoreIndex)};
  batch.answers = chosen;
  batch.problem.type = ProblemType::masked_lm;
  return batch;
}

}  // namespace attend::train
