#include "attend/models/generation.h"

#include "attend/nn/eval_scope.h"
#include "nn/checks.h"

#include <tuple>

namespace attend::inline models {
namespace {

/// Draws a token by its scores (V), which are on the CPU.
int64_t choose(torch::Tensor scores, const GenerationOptions& options,
               const std::optional<torch::Generator>& generator) {
  if (options.temperature == 0.0) return scores.argmax(-1).item<int64_t>();
  auto tokens = torch::arange(scores.size(-1));  // (V)
  if (options.top_k > 0 && options.top_k < scores.size(-1)) {
    std::tie(scores, tokens) = scores.topk(options.top_k);  // (k)
  }
  const auto probabilities = torch::softmax((scores - scores.max()) / options.temperature, -1);
  const auto drawn = probabilities.multinomial(1, /*replacement=*/false, generator);
  return tokens[drawn.item<int64_t>()].item<int64_t>();
}

}  // namespace

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerationOptions& options,
                              const std::optional<torch::Generator>& generator,
                              const std::function<void(int64_t)>& on_token) {
  TORCH_CHECK_VALUE(!prompt.empty(), "the prompt must hold at least one token, found none");
  check_not_negative("temperature", options.temperature);
  check_not_negative("top_k", options.top_k);
  check_not_negative("max_new_tokens", options.max_new_tokens);
  const EvalScope eval(*model);
  const torch::NoGradGuard no_grad;
  const auto device = model->embedding->token->weight.device();
  const auto context = static_cast<std::size_t>(model->config.context);
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
    const auto unseen = torch::tensor(
        at::ArrayRef<int64_t>(tokens.data() + cached, tokens.size() - cached), torch::kLong);
    const auto logits = model->step(unseen.unsqueeze(0).to(device), cache);  // (1, T, V)
    cached = tokens.size();
    tokens.push_back(choose(logits[0][-1].cpu(), options, generator));
    if (on_token) on_token(tokens.back());
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

}  // namespace attend::inline models
