#pragma once

#include "attend/nn/feed_forward.h"
#include "attend/nn/mixture_of_experts.h"

#include <torch/nn/modules/container/any.h>

namespace attend {

/// Returns the feed-forward of a block: a MixtureOfExperts if `options.experts()` is set, else a
/// FeedForward.
template <typename BlockOptions>
torch::nn::AnyModule make_feed_forward(const BlockOptions& options) {
  if (!options.experts()) return torch::nn::AnyModule(FeedForward(options.feed_forward()));
  return torch::nn::AnyModule(
      MixtureOfExperts(MixtureOfExpertsOptions(options.feed_forward(), *options.experts())));
}

}  // namespace attend
