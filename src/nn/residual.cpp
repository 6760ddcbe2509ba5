#include "attend/nn/residual.h"

#include "attend/nn/stochastic_depth.h"
#include "nn/checks.h"
#include "nn/submodules.h"

#include <torch/nn/modules/dropout.h>

namespace attend {

Residual::Residual(torch::nn::Module& owner, const std::string& name, int64_t width,
                   const ResidualOptions& options) {
  check_probability("dropout", options.dropout());
  check_probability("stochastic_depth", options.stochastic_depth());
  const auto add = [&](std::vector<Named>& modules, const std::string& child,
                       torch::nn::AnyModule module) {
    owner.register_module(child, module.ptr());
    modules.push_back({child, std::move(module)});
  };
  const bool post = options.norm_order() == NormOrder::post;
  add(post ? after_ : before_, "norm" + name, make_module("norm", options.norm(), width));
  if (options.norm_order() == NormOrder::sandwich) {
    add(inside_, "norm" + name + "_out", make_module("norm", options.norm(), width));
  }
  if (options.branch_scale()) {
    add(inside_, "scale" + name, make_module("branch_scale", options.branch_scale(), width));
  }
  if (options.dropout() > 0) {
    add(inside_, "dropout" + name, torch::nn::AnyModule(torch::nn::Dropout(options.dropout())));
  }
  if (options.stochastic_depth() > 0) {
    add(inside_, "stochastic_depth" + name,
        torch::nn::AnyModule(StochasticDepth(options.stochastic_depth())));
  }
}

void Residual::check_registered(
    const torch::nn::Module& owner,
    const std::vector<std::shared_ptr<torch::nn::Module>>& children) const {
  for (const auto* modules : {&before_, &inside_, &after_}) {
    for (const auto& each : *modules) {
      attend::check_registered(owner, children, each.name, each.module.ptr());
    }
  }
}

}  // namespace attend
