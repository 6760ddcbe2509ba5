#include "nn/kv_cache_hook.h"

#include <tuple>

namespace attend {

void KvCacheHook::after_projection(AttentionContext& context) {
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

void KvCacheHook::before_attention(AttentionContext& context) {
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

torch::Tensor KvCacheHook::after_attention(const AttentionContext& context,
                                           const torch::Tensor& output) {
  // The window is checked here because another hook may set it in before_attention.
  const auto window = context.args.sliding_window;
  TORCH_CHECK_VALUE(
      cache_.sliding_window() == 0 || (window > 0 && window <= cache_.sliding_window()),
      "the attention's sliding_window (", window, window == 0 ? ", none" : "",
      ") must be positive and at most the KvCache's sliding_window (", cache_.sliding_window(),
      ")");
  return output;
}

}  // namespace attend
