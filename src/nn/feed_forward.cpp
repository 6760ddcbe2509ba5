#include "attend/nn/feed_forward.h"

#include "attend/nn/linear.h"
#include "nn/checks.h"
#include "nn/decoding_plan.h"
#include "nn/new_layers.h"

namespace attend {
namespace {

bool is_gated(const FeedForwardActivation& activation) {
  const auto* kind = std::get_if<Activation>(&activation);
  return kind != nullptr && is_gated(*kind);
}

torch::Tensor apply_up(const torch::Tensor& x, const FeedForwardImpl& module) {
  const auto& activation = module.options.activation();
  if (const auto* kind = std::get_if<Activation>(&activation))
    return apply_linear(x, module.up, *kind);
  return std::get<1>(activation)(apply_linear(x, module.up));
}

std::string_view name_of(const FeedForwardActivation& activation) {
  const auto* kind = std::get_if<Activation>(&activation);
  return kind != nullptr ? to_string(*kind) : "function";
}

}  // namespace

FeedForwardImpl::FeedForwardImpl(const FeedForwardOptions& options) : options(options) {
  reset();
}

void FeedForwardImpl::reset() {
  const int64_t embed_dim = options.embed_dim();
  const int64_t dim_feedforward = options.dim_feedforward().value_or(4 * embed_dim);
  check_positive("embed_dim", embed_dim);
  check_positive("dim_feedforward", dim_feedforward);
  check_probability("dropout", options.dropout());
  const auto* function = std::get_if<1>(&options.activation());
  TORCH_CHECK_VALUE(function == nullptr || *function,
                    "activation must not be an empty function: set it, e.g. to Activation::gelu");

  using torch::nn::LinearOptions;
  const bool bias = options.bias();
  const int64_t up_dim = is_gated(options.activation()) ? 2 * dim_feedforward : dim_feedforward;
  use("up", &FeedForwardImpl::up, new_linear(LinearOptions(embed_dim, up_dim).bias(bias)));
  use("down", &FeedForwardImpl::down,
      new_linear(LinearOptions(dim_feedforward, embed_dim).bias(bias)));
  use("dropout", &FeedForwardImpl::dropout, torch::nn::Dropout(options.dropout()));
}

torch::Tensor FeedForwardImpl::forward(const torch::Tensor& x) {
  check_width("FeedForward", x, options.embed_dim());
  if (const auto step = step_of(*this, x)) return feed_forward_step(x, *step);
  return apply_linear(dropout(apply_up(x, *this)), down);
}

void FeedForwardImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::FeedForward(embed_dim=" << options.embed_dim()
         << ", dim_feedforward=" << down->options.in_features()
         << ", activation=" << name_of(options.activation()) << std::boolalpha
         << ", bias=" << options.bias() << ", dropout=" << options.dropout() << ")";
}

}  // namespace attend
