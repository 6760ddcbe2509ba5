#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/kv_cache.h"

#include <tuple>

namespace attend {

/// Hook that makes an attention layer use a `KvCache`: appends the new keys and values to the
/// cache, replaces them with all keys and values of the cache, and sets the positions and the key
/// mask.
///
///     KvCacheHook hook(cache);
class KvCacheHook : public AttentionHook {
 public:
  explicit KvCacheHook(KvCache& cache) : cache_(cache) {}

  void after_projection(AttentionContext& context) override {
    cache_.check_append(context.state.layer, context.key.size(-2));
    auto& args = context.args;
    TORCH_CHECK_VALUE(!args.positions.defined() && !args.key_positions.defined(),
                      "positions must not be set with a KvCache, which computes them");
    TORCH_CHECK_VALUE(!args.key_mask.defined(),
                      "key_mask must not be set with a KvCache: pass it to KvCache::extend");
    TORCH_CHECK_VALUE(!args.segments.defined() && !args.key_segments.defined(),
                      "segments must not be set with a KvCache: each row of the batch is one "
                      "sequence");
    TORCH_CHECK_VALUE(!args.mask.defined() || cache_.is_aligned(), "mask ", args.mask.sizes(),
                      " requires a KvCache whose sequences have equal lengths, whose last "
                      "KvCache::extend had no padding, and in which no tokens were overwritten");
    TORCH_CHECK_VALUE(args.causal || args.mask.defined(),
                      "causal must be true with a KvCache: earlier tokens cannot attend to later "
                      "ones; for other patterns pass a mask (T, S)");
    args.positions = cache_.query_positions();
  }

  void before_attention(AttentionContext& context) override {
    std::tie(context.key, context.value) =
        cache_.append(context.state.layer, context.key, context.value);
    auto& args = context.args;
    if (cache_.is_aligned()) {
      // The default positions are correct: the last query has the position of the last key. With
      // default positions, a single query needs no causal mask.
      args.positions.reset();
      return;
    }
    args.key_positions = cache_.key_positions();
    args.key_mask = cache_.key_mask();
  }

  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override {
    // The window is checked here because another hook may set it in before_attention.
    const auto window = context.args.sliding_window;
    TORCH_CHECK_VALUE(
        cache_.sliding_window() == 0 || (window > 0 && window <= cache_.sliding_window()),
        "the attention's sliding_window (", window, window == 0 ? ", none" : "",
        ") must be positive and at most the KvCache's sliding_window (", cache_.sliding_window(),
        ")");
    return output;
  }

 private:
  KvCache& cache_;
};

}  // namespace attend
