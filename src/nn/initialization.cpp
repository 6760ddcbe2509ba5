#include "attend/nn/initialization.h"

#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "nn/checks.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

namespace attend {
namespace {

constexpr double kGpt2Std = 0.02;

void zero_bias(const torch::nn::LinearImpl& linear) {
  if (linear.bias.defined()) torch::nn::init::zeros_(linear.bias);
}

void initialize_gpt2_module(torch::nn::Module& module) {
  if (auto* linear = module.as<torch::nn::Linear>()) {
    torch::nn::init::normal_(linear->weight, 0.0, kGpt2Std);
    zero_bias(*linear);
  }
  if (auto* embedding = module.as<torch::nn::Embedding>()) {
    torch::nn::init::normal_(embedding->weight, 0.0, kGpt2Std);
    const auto padding = embedding->options.padding_idx();
    if (padding) torch::nn::init::zeros_(embedding->weight.detach()[*padding]);
  }
}

}  // namespace

void initialize_gpt2(ModuleRef module, int64_t num_layers) {
  check_not_negative("num_layers", num_layers);
  module->apply(initialize_gpt2_module);
  const auto num_branches = 2.0 * static_cast<double>(std::max<int64_t>(num_layers, 1));
  const double branch_std = kGpt2Std / std::sqrt(num_branches);
  module->apply([&](torch::nn::Module& submodule) {
    if (auto* attention = submodule.as<MultiheadAttention>()) {
      torch::nn::init::normal_(attention->out->weight, 0.0, branch_std);
    }
    if (auto* feed_forward = submodule.as<FeedForward>()) {
      torch::nn::init::normal_(feed_forward->down->weight, 0.0, branch_std);
    }
  });
}

void initialize_xavier(ModuleRef module) {
  for (const auto& parameter : module->parameters()) {
    if (parameter.dim() > 1) torch::nn::init::xavier_uniform_(parameter);
  }
  module->apply([](torch::nn::Module& submodule) {
    auto* attention = submodule.as<MultiheadAttention>();
    if (attention == nullptr) return;
    for (const auto& linear :
         {attention->qkv, attention->query, attention->key, attention->value, attention->out}) {
      if (linear) zero_bias(*linear);
    }
  });
}

void initialize_bloem(ModuleRef module) {
  module->apply([](torch::nn::Module& submodule) {
    if (auto* linear = submodule.as<torch::nn::Linear>()) linear->reset_parameters();
    if (auto* embedding = submodule.as<torch::nn::Embedding>()) embedding->reset_parameters();
  });
}

}  // namespace attend
