#pragma once

#include "attend/nn/kv_cache.h"
#include "nn/head_sizes.h"
#include "ops/autocast.h"

namespace attend {

/// Returns `options` with the dtype and device of `weight`, a parameter of the model. Under
/// autocast, the dtype is the autocast dtype, because attention computes keys and values in this
/// dtype. A float64 `weight` is an exception: autocast does not cast float64.
inline KvCacheOptions with_weight_type(KvCacheOptions options, const torch::Tensor& weight) {
  const auto dtype = weight.scalar_type();
  const auto cast = autocast_dtype(weight.device().type());
  return options.dtype(cast && dtype != torch::kDouble ? *cast : dtype).device(weight.device());
}

/// Returns a cache for a stack of `num_layers` layers with this attention. `stack`: contains the
/// parameters of the layers.
inline KvCache stack_cache(const torch::nn::Module& stack,
                           const MultiheadAttentionOptions& attention, int64_t num_layers,
                           int64_t batch_size, int64_t max_seq_len) {
  const auto options = KvCacheOptions()
                           .num_layers(num_layers)
                           .batch_size(batch_size)
                           .num_kv_heads(num_kv_heads_of(attention))
                           .head_dim(head_dim_of(attention))
                           .max_seq_len(max_seq_len);
  const auto parameters = stack.parameters();
  return KvCache(parameters.empty() ? options : with_weight_type(options, parameters.front()));
}

}  // namespace attend
