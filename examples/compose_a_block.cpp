// Builds a modern transformer block with hooks: QK norm, rotary positions, sliding window,
// attention sinks, output gate, and a custom hook, which is a module derived from AttentionHook.
#include "attend/nn/attention_sinks.h"
#include "attend/nn/branch_scale.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/transformer_block.h"

#include <fmt/format.h>

namespace {

/// A hook that multiplies the queries of each head by a learned factor.
class TemperatureImpl : public attend::Cloneable<TemperatureImpl>, public attend::AttentionHook {
 public:
  explicit TemperatureImpl(int64_t num_heads) : num_heads(num_heads) { reset(); }
  void reset() override { weight = register_parameter("weight", torch::ones({num_heads, 1, 1})); }
  void after_projection(attend::AttentionContext& context) override {
    context.query = context.query * weight;  // (B, H, T, D)
  }

  int64_t num_heads;
  torch::Tensor weight;
};

attend::AttentionHookFactory temperature() {
  return {"temperature", [](const attend::AttentionDims& dims) {
            return std::make_shared<TemperatureImpl>(dims.num_heads);
          }};
}

}  // namespace

int main() {
  torch::manual_seed(0);
  auto options = attend::TransformerBlockOptions(64, 8);
  options.attention()
      .num_kv_heads(2)
      .bias(false)
      .add(attend::qk_norm(attend::rms_norm()))
      .add(attend::rotary({.theta = 500000.0}))
      .add(attend::sliding_window(16))
      .add(attend::attention_sinks())
      .add(attend::output_gate())
      .add(temperature());
  options.feed_forward().activation(attend::Activation::swiglu).bias(false);
  options.residual()
      .norm(attend::rms_norm())
      .norm_order(attend::NormOrder::sandwich)
      .branch_scale(attend::layer_scale(0.1));
  attend::TransformerBlock block(options);
  for (const auto& item : block->named_parameters()) fmt::print("{}\n", item.key());

  // Decoding token by token with a KV cache gives the same output as one pass over the sequence.
  block->eval();
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 40, 64});  // (B, T, E)
  const auto expected = block->forward(x, {.causal = true});

  attend::KvCache cache(attend::KvCacheOptions()
                            .num_layers(1)
                            .batch_size(1)
                            .num_kv_heads(2)
                            .head_dim(8)
                            .max_seq_len(16)
                            .sliding_window(16));
  double difference = 0.0;
  for (int64_t t = 0; t < x.size(1); ++t) {
    cache.extend(1);
    const auto y = block->forward(x.narrow(1, t, 1), {.causal = true}, {.cache = &cache});
    difference = std::max(difference, (y - expected.narrow(1, t, 1)).abs().max().item<double>());
  }
  fmt::print("40 tokens with a cache of 16: {}\n",
             difference < 1e-4 ? "equal to one forward pass" : "different");
}
