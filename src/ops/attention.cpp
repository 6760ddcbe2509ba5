#include "attend/ops/attention.h"

#include "ops/attention_call.h"

namespace attend {

AttentionOutput dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& value, const AttentionArgs& args,
                                      const ScoreOptions& options) {
  MaskSource masks;
  return attend({query, key, value, args, options}, masks);
}

}  // namespace attend
