#pragma once

#include "attend/api.h"
#include "attend/nn/feed_forward.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <utility>

namespace attend {

/// How many experts there are, and how tokens are divided among them.
///
///     ExpertsOptions(8)                             // the best 2 of 8, as in Mixtral
///     ExpertsOptions(64).num_experts_per_tok(1).normalize(false)  // as in Switch
struct ExpertsOptions {
  ExpertsOptions(int64_t num_experts) : num_experts_(num_experts) {}  // NOLINT: as in torch::nn

  /// Number of experts N.
  TORCH_ARG(int64_t, num_experts);
  /// Number of experts K that each token goes to.
  TORCH_ARG(int64_t, num_experts_per_tok) = 2;
  /// Whether a token's weights are a softmax over its K experts, so that they sum to 1 (Mixtral);
  /// otherwise they are those experts' probabilities among all N (Switch). With K = 1 a router
  /// learns from the output only if this is false.
  TORCH_ARG(bool, normalize) = true;
};

/// Options for `MixtureOfExperts`.
///
///     MixtureOfExpertsOptions(64, 8)  // 8 experts of width 64
///     MixtureOfExpertsOptions(FeedForwardOptions(64).activation(Activation::swiglu),
///                             ExpertsOptions(8).num_experts_per_tok(1))
struct MixtureOfExpertsOptions {
  MixtureOfExpertsOptions(FeedForwardOptions expert, ExpertsOptions experts)
      : expert_(std::move(expert)), experts_(std::move(experts)) {}

  /// Those of each expert.
  TORCH_ARG(FeedForwardOptions, expert);
  TORCH_ARG(ExpertsOptions, experts);
};

/// A sparse mixture of experts (Shazeer et al. 2017; Fedus et al. 2021; Jiang et al. 2024,
/// Mixtral): a router sends each token to the K best of N feed-forward layers and adds up their
/// results, each times the router's weight. An expert has no max_seq_len, so no token is ever
/// dropped. The router's softmax is in float32 at least.
///
/// State dict: `router` (N, E), a Linear without bias, `experts.0` .. `experts.N-1` (FeedForward).
///
///     MixtureOfExperts mixture(MixtureOfExpertsOptions(64, 8));
///     auto y = mixture(x);  // (B, T, 64) -> (B, T, 64)
///     auto loss = cross_entropy + 0.01 * mixture->aux_loss;
class ATTEND_API MixtureOfExpertsImpl : public torch::nn::Cloneable<MixtureOfExpertsImpl> {
 public:
  explicit MixtureOfExpertsImpl(const MixtureOfExpertsOptions& options);

  /// `x` (B, T, E) or (T, E), returns the same shape. Throws c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  MixtureOfExpertsOptions options;
  torch::nn::Linear router{nullptr};
  torch::nn::ModuleList experts{nullptr};
  /// How unevenly the last forward used the experts, with its graph: N * sum_i f_i P_i with f_i
  /// expert i's share of the K choices of all tokens and P_i its mean probability (Fedus et al.
  /// 2021, equation 4, there with K = 1). (): 1 if all are used alike, up to N / K if the same K
  /// are always chosen; 0 if there was no token; undefined before the first forward.
  torch::Tensor aux_loss;

 private:
  /// The same by all experts for all tokens, for `StaticShapesGuard`.
  torch::Tensor mix_all(const torch::Tensor& tokens, const torch::Tensor& weights);
  /// Adds up what the experts make of `tokens` (B*T, E). `routed` (B*T, N) is 1 where a token goes
  /// to an expert, else 0; `weights` (B*T, N) says how much that expert's result counts.
  torch::Tensor mix(const torch::Tensor& tokens, const torch::Tensor& routed,
                    const torch::Tensor& weights);
};
TORCH_MODULE(MixtureOfExperts);

/// The sum of `aux_loss` over the mixtures of experts in a module and all below it that have
/// run; 0 if there is none. (), with the graph of their last forward.
///
///     (loss + 0.01 * router_aux_loss(*model)).backward();
ATTEND_API torch::Tensor router_aux_loss(const torch::nn::Module& module);

}  // namespace attend
