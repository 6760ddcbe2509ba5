#include "attend/nn/mixture_of_experts.h"

#include "attend/nn/static_shapes_guard.h"
#include "nn/adapters.h"
#include "nn/checks.h"
#include "nn/new_layers.h"
#include "ops/math_type.h"

#include <tuple>

namespace attend {
namespace {

/// Returns the load-balancing loss: see the documentation of aux_loss. `chosen` (N): how often each
/// expert was chosen; `probabilities` (N): sums of the router's probabilities over the tokens.
torch::Tensor load_balancing_loss(const torch::Tensor& chosen, const torch::Tensor& probabilities,
                                  int64_t top_k) {
  // Means are computed as sums divided by a count of at least 1, since a mean over no tokens is
  // NaN.
  const auto choices = chosen.sum().clamp_min(1.0);
  const auto share = chosen / choices;                         // f, (N)
  const auto probability = probabilities * (top_k / choices);  // P, (N)
  return (share * probability).sum() * chosen.numel();
}

/// Returns the MixtureOfExperts in `module`, also itself, whose forward has set `aux_loss`.
std::vector<const MixtureOfExpertsImpl*> mixtures_with_loss(const torch::nn::Module& module) {
  std::vector<const MixtureOfExpertsImpl*> mixtures;
  const auto add = [&](const torch::nn::Module& each) {
    const auto* mixture = each.as<MixtureOfExperts>();
    if (mixture != nullptr && mixture->aux_loss.defined()) mixtures.push_back(mixture);
  };
  add(module);
  for (const auto& child : module.modules(/*include_self=*/false)) add(*child);
  return mixtures;
}

}  // namespace

MixtureOfExpertsImpl::MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options)
    : options(options) {
  reset();
}

void MixtureOfExpertsImpl::reset() {
  const int64_t num_experts = options.experts().num_experts();
  const int64_t top_k = options.experts().num_experts_per_tok();
  check_positive("num_experts", num_experts);
  check_positive("num_experts_per_tok", top_k);
  TORCH_CHECK_VALUE(top_k <= num_experts, "num_experts_per_tok (", top_k,
                    ") must be at most num_experts (", num_experts, ")");
  const int64_t embed_dim = options.expert().embed_dim();
  check_positive("embed_dim", embed_dim);

  const auto router_options = torch::nn::LinearOptions(embed_dim, num_experts).bias(false);
  use("router", &MixtureOfExpertsImpl::router, new_linear(router_options));
  use("experts", &MixtureOfExpertsImpl::experts, torch::nn::ModuleList());
  for (int64_t i = 0; i < num_experts; ++i) experts->push_back(FeedForward(options.expert()));
  aux_loss = torch::Tensor();
  router_sums = torch::Tensor();
}

torch::Tensor MixtureOfExpertsImpl::forward(const torch::Tensor& x) {
  check_width("MixtureOfExperts", x, options.expert().embed_dim());
  const int64_t top_k = options.experts().num_experts_per_tok();

  const auto tokens = x.flatten(0, -2);  // (B*T, E)
  const WeightRange all{0, options.experts().num_experts()};
  const auto routing = add_adapters(router(tokens), tokens, *router, all);
  const auto logits = to_math_type(routing, x);        // (B*T, N)
  const auto probabilities = logits.softmax(-1);       // (B*T, N)
  const auto [best, chosen] = logits.topk(top_k, -1);  // (B*T, K)
  const auto weights =
      options.experts().norm_topk_prob() ? best.softmax(-1) : probabilities.gather(-1, chosen);

  const auto zeros = torch::zeros_like(probabilities);
  const auto routed = zeros.scatter(-1, chosen, 1.0);  // (B*T, N)
  // In eval mode, forward must not write members, because threads may share the module.
  if (is_training()) {
    router_sums = torch::stack({routed.sum(0), probabilities.sum(0)});
    aux_loss = load_balancing_loss(router_sums[0], router_sums[1], top_k);
  }

  const auto expert_weights = zeros.scatter(-1, chosen, weights);  // (B*T, N)
  const auto mixed = StaticShapesGuard::is_enabled() ? mix_all(tokens, expert_weights)
                                                     : mix(tokens, routed, expert_weights);
  return mixed.type_as(x).view_as(x);
}

void MixtureOfExpertsImpl::train(bool on) {
  Cloneable::train(on);
  if (on) return;
  aux_loss.reset();
  router_sums.reset();
}

torch::Tensor MixtureOfExpertsImpl::mix_all(const torch::Tensor& tokens,
                                            const torch::Tensor& weights) {
  std::vector<torch::Tensor> results;
  for (const auto& expert : *experts) results.push_back(expert->as<FeedForward>()->forward(tokens));
  return (torch::stack(results, -1) * weights.unsqueeze(-2)).sum(-1);  // (B*T, E)
}

torch::Tensor MixtureOfExpertsImpl::mix(const torch::Tensor& tokens, const torch::Tensor& routed,
                                        const torch::Tensor& weights) {
  std::vector<torch::Tensor> rows;
  std::vector<torch::Tensor> results;
  int64_t i = 0;
  // Experts without tokens also run, because a trace must be valid for inputs whose tokens are
  // routed to other experts.
  for (const auto& expert : *experts) {
    const auto token_index = routed.select(-1, i).nonzero().squeeze(-1);                   // (n)
    const auto weight = weights.select(-1, i).index_select(0, token_index).unsqueeze(-1);  // (n, 1)
    const auto result = expert->as<FeedForward>()->forward(tokens.index_select(0, token_index));
    rows.push_back(token_index);
    results.push_back(result * weight);  // (n, E)
    ++i;
  }
  const auto zeros = torch::zeros_like(tokens).type_as(weights);
  return zeros.index_add(0, torch::cat(rows), torch::cat(results));  // (B*T, E)
}

void MixtureOfExpertsImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::MixtureOfExperts(num_experts=" << options.experts().num_experts()
         << ", num_experts_per_tok=" << options.experts().num_experts_per_tok() << std::boolalpha
         << ", norm_topk_prob=" << options.experts().norm_topk_prob() << ")";
}

torch::Tensor router_aux_loss(ConstModuleRef module) {
  auto sum = torch::zeros({});
  for (const auto* mixture : mixtures_with_loss(*module)) sum = sum + mixture->aux_loss;
  return sum;
}

torch::Tensor router_aux_loss(ConstModuleRef module,
                              const std::function<void(torch::Tensor&)>& all_reduce) {
  auto sum = torch::zeros({});
  const auto mixtures = mixtures_with_loss(*module);
  if (mixtures.empty()) return sum;
  std::vector<torch::Tensor> own;
  for (const auto* mixture : mixtures) own.push_back(mixture->router_sums[0].detach());
  auto chosen = torch::cat(own);  // by all tokens of the batch
  all_reduce(chosen);
  int64_t begin = 0;
  for (const auto* mixture : mixtures) {
    const auto& experts = mixture->options.experts();
    const auto end = begin + experts.num_experts();
    sum = sum + load_balancing_loss(chosen.slice(0, begin, end), mixture->router_sums[1],
                                    experts.num_experts_per_tok());
    begin = end;
  }
  return sum;
}

}  // namespace attend
