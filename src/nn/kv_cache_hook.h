#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/kv_cache.h"

namespace attend {

/// Hook that makes an attention layer use a `KvCache`: appends the new keys and values to the
/// cache, replaces them with all keys and values of the cache, and sets the positions and the key
/// mask.
///
///     KvCacheHook hook(cache);
class KvCacheHook : public AttentionHook {
 public:
  explicit KvCacheHook(KvCache& cache) : cache_(cache) {}

  void after_projection(AttentionContext& context) override;
  void before_attention(AttentionContext& context) override;
  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override;

 private:
  KvCache& cache_;
};

}  // namespace attend
