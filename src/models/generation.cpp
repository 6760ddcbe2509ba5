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
  TORCH_CHECK_VALUE(!prompt.empty(), "the prompt must hold at least one token, found none");
  check(options);
  const EvalGuard eval(*model);
  const torch::NoGradGuard no_grad;
  const auto device = model->embedding->token->weight.device();
  const auto context = static_cast<std::size_t>(model->config.max_seq_len);
  auto& tokens = prompt;
  const std::size_t given = prompt.size();
  auto cache = model->make_cache(1);
  std::size_t cached = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    // Once the text is longer than the context its beginning falls away, which moves all positions:
    // then nothing that the cache holds is right any more.
    if (tokens.size() > context) {
      cache.clear();
      cached = tokens.size() - context;
    }
    const auto unseen = as_batch({tokens.data() + cached, tokens.size() - cached}, device);
    const auto logits = model->step(unseen, cache);  // (1, T, V)
    cached = tokens.size();
    tokens.push_back(sample(logits[0][-1], options.sampling, tokens, generator));
    if (on_token && !on_token(tokens.back())) break;
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

std::vector<int64_t> generate(Seq2Seq& model, const std::vector<int64_t>& source,
                              const AnswerTokens& around, const GenerationOptions& options,
                              const std::optional<torch::Generator>& generator,
                              const std::function<bool(int64_t)>& on_token) {
  TORCH_CHECK_VALUE(!source.empty(), "the source must hold at least one token, found none");
  check(options);
  const EvalGuard eval(*model);
  const torch::NoGradGuard no_grad;
  const auto device = model->target_embedding->token->weight.device();
  const auto memory = model->encode(as_batch(source, device));  // (1, S, E)
  auto cache = model->make_cache(1);
  std::vector<int64_t> answer;
  int64_t newest = around.begin;
  const auto longest = std::min(options.max_new_tokens, model->config.max_seq_len);
  while (static_cast<int64_t>(answer.size()) < longest) {
    const auto logits = model->step(as_batch(newest, device), memory, cache);  // (1, 1, V)
    newest = sample(logits[0][-1], options.sampling, answer, generator);
    if (newest == around.end) break;
    answer.push_back(newest);
    if (on_token && !on_token(newest)) break;
  }
  return answer;
}

}  // namespace attend
