// Helpers shared by the KV cache tests.
#pragma once

#include "attend/nn/kv_cache.h"
#include "attend/nn/transformer_block.h"
#include "attend/ops/masks.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

namespace attend {

/// Hook that sets a sliding window.
struct LocalWindow : torch::nn::Cloneable<LocalWindow>, AttentionHook {
  explicit LocalWindow(int64_t window) : window(window) {}
  void reset() override {}
  void before_attention(AttentionContext& context) override {
    context.args.sliding_window = window;
  }
  int64_t window;
};

/// Hook that makes queries and keys depend on positions, as rotary embeddings do.
struct StampPositions : torch::nn::Cloneable<StampPositions>, AttentionHook {
  void reset() override {}
  void after_projection(AttentionContext& context) override {
    auto angle =
        query_positions(context).unsqueeze(-1).to(context.query.scalar_type());  // (.., T, 1)
    if (angle.dim() == 3) angle = angle.unsqueeze(1);                            // (B, 1, T, 1)
    context.query = context.query * (1 + torch::sin(angle));
    context.key = context.key + torch::cos(angle);
  }
};

/// Hook that adds a distance-dependent bias to the scores, as ALiBi does.
struct DistanceBias : torch::nn::Cloneable<DistanceBias>, AttentionHook {
  void reset() override {}
  void before_attention(AttentionContext& context) override {
    const auto offsets = key_offsets(context.query, context.key, context.args);
    const auto bias = -0.3 * offsets.abs().to(context.query.scalar_type());
    context.args.mask = combine_masks(context.args.mask, bias);
  }
};

template <typename Part, typename... Args>
AttentionHookFactory part(const char* name, Args... args) {
  return {name, [=](const AttentionDims&) { return std::make_shared<Part>(args...); }};
}

/// Attention hooks that are tested together with a cache.
struct CacheCase {
  std::string name;
  std::vector<AttentionHookFactory> parts = {};
  int64_t window = 0;  ///< sliding window of the hooks; 0 = none

  friend std::ostream& operator<<(std::ostream& stream, const CacheCase& self) {
    return stream << self.name;
  }
};

inline std::vector<CacheCase> cache_cases() {
  const auto window = part<LocalWindow>("window", 3);
  const auto stamp = part<StampPositions>("stamp");
  const auto bias = part<DistanceBias>("bias");
  return {{"Plain"},
          {"Window", {window}, 3},
          {"Positions", {stamp}},
          {"Distances", {bias}},
          {"Everything", {stamp, bias, window}, 3}};
}

/// Returns the cases with a sliding window.
inline std::vector<CacheCase> rolling_cases() {
  auto cases = cache_cases();
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [](const CacheCase& each) { return each.window == 0; }),
              cases.end());
  return cases;
}

/// Two blocks of width 8 in eval mode. Each has 4 query heads and, by default, 2 key-value heads.
class CachedBlocks {
 public:
  explicit CachedBlocks(const std::vector<AttentionHookFactory>& parts, int64_t num_kv_heads = 2,
                        torch::Dtype dtype = torch::kDouble) {
    TransformerBlockOptions options(8, 4);
    options.attention().num_kv_heads(num_kv_heads).hooks(parts);
    for (int i = 0; i < 2; ++i) {
      TransformerBlock block(options);
      block->to(dtype);
      block->eval();
      blocks_.push_back(block);
    }
  }

  /// Runs the blocks with causal attention. Maps x (..., T, 8) to (..., T, 8).
  torch::Tensor operator()(torch::Tensor x, KvCache* cache = nullptr, AttentionArgs args = {}) {
    args.causal = true;
    for (int64_t layer = 0; layer < 2; ++layer) {
      x = blocks_[static_cast<std::size_t>(layer)]->forward(x, args,
                                                            {.cache = cache, .layer = layer});
    }
    return x;
  }

  /// Succeeds if `y` equals the outputs for the tokens of `x` (..., T, 8) from `begin` on, without
  /// a cache.
  testing::AssertionResult computes(const torch::Tensor& y, const torch::Tensor& x,
                                    int64_t begin = 0) const {
    CachedBlocks exact = *this;
    Tensors leaves = in_float64({x});
    const auto input = leaves[0];
    for (auto& block : exact.blocks_) {
      block = TransformerBlock(std::dynamic_pointer_cast<TransformerBlockImpl>(block->clone()));
      block->to(torch::kDouble);
      leaves = leaves_of(*block, leaves);
    }
    const auto run = [&] { return exact(input).narrow(-2, begin, y.size(-2)); };
    return within_rounding(y, leaves, run);
  }

  /// Splits x into random pieces of at most `most` tokens. Runs the blocks with the cache on one
  /// piece after the other. Returns the joined outputs (..., T, 8).
  torch::Tensor in_pieces(const torch::Tensor& x, KvCache& cache, int64_t most) {
    std::vector<torch::Tensor> outputs;
    for (int64_t begin = 0; begin < x.size(-2);) {
      const auto tokens = std::min(draw(0, most), x.size(-2) - begin);
      cache.extend(tokens);
      outputs.push_back((*this)(x.narrow(-2, begin, tokens), &cache));
      begin += tokens;
    }
    return torch::cat(outputs, -2);
  }

 private:
  std::vector<TransformerBlock> blocks_;
};

}  // namespace attend
