#pragma once

#include "attend/nn/attention_hook.h"
#include "attend/nn/kv_cache.h"

namespace attend {

/// Hook that makes an attention layer use a `KvCache`: sets the positions and the key mask, and
/// appends the keys and values to the cache.
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
