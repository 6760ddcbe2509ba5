#include "attend/models/generation.h"

#include "attend/nn/eval_guard.h"
#include "nn/checks.h"

#include <algorithm>

namespace attend {
namespace {

void check(const GenerationOptions& options) {
  check_not_negative("max_new_tokens", options.max_new_tokens);
  check_sampling(options.sampling);
}

torch::Tensor as_batch(at::IntArrayRef tokens, const torch::Device& device) {
  return torch::tensor(tokens, torch::kLong).unsqueeze(0).to(device);  // (1, T)
}

}  // namespace

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerationOptions& options,
                              const std::optional<torch::Generator>& generator,
                              const std::function<bool(int64_t)>& on_token) {
  TORCH_CHECK_VALUE(!prompt.empty(), "the prompt is empty, expected at least one token");
  check(options);
  const EvalGuard eval(*model);
  const torch::NoGradGuard no_grad;
  const auto device = model->embedding->token->weight.device();
  const auto max_seq_len = static_cast<std::size_t>(model->config.max_seq_len);
  auto& tokens = prompt;
  const std::size_t prompt_size = prompt.size();
  auto cache = model->make_cache(1);
  std::size_t cached = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    // Beyond max_seq_len the first tokens are dropped, which shifts all positions and makes the
    // cached keys and values invalid.
    if (tokens.size() > max_seq_len) {
      cache.clear();
      cached = tokens.size() - max_seq_len;
    }
    const auto input = as_batch({tokens.data() + cached, tokens.size() - cached}, device);
    const auto logits = model->step(input, cache);  // (1, T, V)
    cached = tokens.size();
    tokens.push_back(sample(logits[0][-1], options.sampling, tokens, generator));
    if (on_token && !on_token(tokens.back())) break;
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt_size), tokens.end()};
}

std::vector<int64_t> generate(Seq2Seq& model, const std::vector<int64_t>& source,
                              const SequenceTokens& special_tokens,
                              const GenerationOptions& options,
                              const std::optional<torch::Generator>& generator,
                              const std::function<bool(int64_t)>& on_token) {
  TORCH_CHECK_VALUE(!source.empty(), "the source is empty, expected at least one token");
  check(options);
  const EvalGuard eval(*model);
  const torch::NoGradGuard no_grad;
  const auto device = model->target_embedding->token->weight.device();
  const auto memory = model->encode(as_batch(source, device));  // (1, S, E)
  auto cache = model->make_cache(1);
  std::vector<int64_t> target;
  int64_t newest = special_tokens.bos_token;
  const auto max_tokens = std::min(options.max_new_tokens, model->config.max_seq_len);
  while (static_cast<int64_t>(target.size()) < max_tokens) {
    const auto logits = model->step(as_batch(newest, device), memory, cache);  // (1, 1, V)
    newest = sample(logits[0][-1], options.sampling, target, generator);
    if (newest == special_tokens.eos_token) break;
    target.push_back(newest);
    if (on_token && !on_token(newest)) break;
  }
  return target;
}

}  // namespace attend
