#pragma once

#include "attend/nn/feed_forward.h"
#include "attend/nn/mixture_of_experts.h"
#include "nn/submodules.h"

namespace attend {

/// Returns the feed-forward of a block: `options.custom_feed_forward()` if set, else a
/// MixtureOfExperts if `options.experts()` is set, else a FeedForward.
template <typename BlockOptions>
torch::nn::AnyModule make_feed_forward(const BlockOptions& options) {
  const int64_t embed_dim = options.attention().embed_dim();
  if (options.custom_feed_forward()) {
    TORCH_CHECK_VALUE(!options.experts(), "custom_feed_forward and experts (",
                      options.experts()->num_experts(), ") must not both be set");
    return make_module("custom_feed_forward", options.custom_feed_forward(), embed_dim);
  }
  TORCH_CHECK_VALUE(options.feed_forward().embed_dim() == embed_dim, "feed_forward's embed_dim (",
                    options.feed_forward().embed_dim(), ") must equal attention's (", embed_dim,
                    ")");
  if (!options.experts()) return torch::nn::AnyModule(FeedForward(options.feed_forward()));
  return torch::nn::AnyModule(
      MixtureOfExperts(MixtureOfExpertsOptions(options.feed_forward(), *options.experts())));
}

}  // namespace attend
