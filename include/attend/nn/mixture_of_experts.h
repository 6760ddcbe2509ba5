#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_ref.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/feed_forward.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <utility>

namespace attend {

/// Options of the experts and their routing.
///
///     ExpertsOptions(8);                                           // 2 of 8, as in Mixtral
///     ExpertsOptions(64).num_experts_per_tok(1).norm_topk_prob(false);  // Switch Transformer
struct ExpertsOptions {
  /// Options for N experts.
  ExpertsOptions(int64_t num_experts) : num_experts_(num_experts) {}  // NOLINT: as in torch::nn

  /// Number of experts N.
  ATTEND_ARG(int64_t, num_experts);
  /// Number of experts K per token.
  ATTEND_ARG(int64_t, num_experts_per_tok) = 2;
  /// The output of each of the K chosen experts is multiplied by a softmax of the router's logits.
  /// If true, the softmax is over the K chosen experts, so the factors sum to 1 (Mixtral). If
  /// false, the softmax is over all N experts (Switch Transformer). Set this option to false if
  /// K = 1: a softmax over one expert is always 1, so the router would get no gradient from the
  /// output.
  ATTEND_ARG(bool, norm_topk_prob) = true;
};

/// Options for `MixtureOfExperts`.
///
///     MixtureOfExpertsOptions(64, 8);  // 8 experts of width 64
///     MixtureOfExpertsOptions(FeedForwardOptions(64).activation(Activation::swiglu),
///                             ExpertsOptions(8).num_experts_per_tok(1).norm_topk_prob(false));
struct MixtureOfExpertsOptions {
  /// Options of each expert and of the routing.
  MixtureOfExpertsOptions(FeedForwardOptions expert, ExpertsOptions experts)
      : expert_(std::move(expert)), experts_(experts) {}

  /// Options of each expert.
  ATTEND_NESTED_ARG(FeedForwardOptions, expert);
  /// Options of the routing.
  ATTEND_NESTED_ARG(ExpertsOptions, experts);
};

/// Sparse mixture of experts (Shazeer et al. 2017; Fedus et al. 2021; Jiang et al. 2024, Mixtral):
/// a router sends each token to the top K of N feed-forward layers, the experts. The result is the
/// sum of their outputs, weighted by the router. Experts have no capacity limit, so no token is
/// dropped. The router's softmax is computed in float32 or wider.
///
/// State dict: `router` (N, E), a Linear without bias, and `experts.0` .. `experts.N-1`
/// (FeedForward).
///
///     MixtureOfExperts mixture(MixtureOfExpertsOptions(64, 8));
///     auto y = mixture(x);  // (B, T, 64) -> (B, T, 64)
///     auto loss = cross_entropy + 0.01 * mixture->aux_loss;
class ATTEND_API MixtureOfExpertsImpl : public Cloneable<MixtureOfExpertsImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range.
  explicit MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options);

  /// `x` (..., T, E); returns a tensor of the same shape. In training mode, sets `aux_loss` and
  /// `router_sums`. Throws c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x);

  /// Sets the training mode; eval mode clears `aux_loss` and `router_sums`.
  void train(bool on = true) override;
  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  MixtureOfExpertsOptions options;         ///< options passed to the constructor
  torch::nn::Linear router{nullptr};       ///< E -> N, logits
  torch::nn::ModuleList experts{nullptr};  ///< N FeedForwards
  /// Load-balancing loss (0-dim) of the last forward in training mode, with its autograd graph. The
  /// loss is N * sum_i f_i P_i, where f_i is the fraction of the routing choices that select expert
  /// i and P_i is the mean router probability of expert i (Fedus et al. 2021, equation 4, extended
  /// to K > 1). The loss is 1 if all experts are chosen equally often, at most N / K if the same K
  /// experts are always chosen, and 0 without tokens. The tensor is undefined before the first
  /// forward and in eval mode.
  torch::Tensor aux_loss;
  /// Sums over the tokens of the last forward in training mode, from which `aux_loss` is computed:
  /// (2, N), how often each expert was chosen, and the sum of its router probabilities, with their
  /// autograd graph. Undefined if `aux_loss` is.
  torch::Tensor router_sums;

 private:
  /// Returns the same as `mix`, but runs all experts on all tokens, so that no shape depends on the
  /// routing. Used while a `StaticShapesGuard` exists.
  torch::Tensor mix_all(const torch::Tensor& tokens, const torch::Tensor& weights);
  /// Runs each expert on its tokens; returns (B*T, E). `tokens` (B*T, E); `routed` (B*T, N) is 1
  /// where a token is routed to an expert, else 0; `weights` (B*T, N) are the factors of the
  /// experts' outputs, 0 where `routed` is 0.
  torch::Tensor mix(const torch::Tensor& tokens, const torch::Tensor& routed,
                    const torch::Tensor& weights);
};
TORCH_MODULE(MixtureOfExperts);

/// Returns the sum (0-dim) of `aux_loss` over all `MixtureOfExperts` in `module`, with its autograd
/// graph; 0 if no `aux_loss` is defined.
///
///     (loss + 0.01 * router_aux_loss(*model)).backward();
ATTEND_API torch::Tensor router_aux_loss(ConstModuleRef module);

/// Returns the part of one process in the load-balancing loss (0-dim) of a batch of which several
/// processes compute a part each. `all_reduce` replaces a tensor by its sum over all processes; it
/// is called once if a `MixtureOfExperts` in `module` has `router_sums`. The sum of the results of
/// all processes is the loss of the whole batch, and the sum of their gradients is its gradient.
ATTEND_API torch::Tensor router_aux_loss(ConstModuleRef module,
                                         const std::function<void(torch::Tensor&)>& all_reduce);

}  // namespace attend
