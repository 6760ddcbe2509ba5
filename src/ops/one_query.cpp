#include "ops/one_query.h"

#include "ops/fast_kernels.h"
#include "ops/in_parallel.h"
#include "ops/step_kernels.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>

namespace attend {
namespace {

/// Elements of keys for which a thread is worth its start.
constexpr int64_t kElementsForThread = 4 * 1024;

/// Returns true if `x` has four dimensions, and vectors of float32 that are contiguous.
bool has_vectors(const torch::Tensor& x) {
  return x.dim() == 4 && x.scalar_type() == torch::kFloat && x.numel() > 0 && x.stride(3) == 1;
}

}  // namespace

torch::Tensor attend_one_query(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, std::optional<double> scale) {
  const bool supported = has_vectors(query) && has_vectors(key) && has_vectors(value) &&
                         query.size(2) == 1 && key.size(0) == query.size(0) &&
                         query.size(1) % key.size(1) == 0 && value.sizes() == key.sizes();
  if (!supported || !can_use_inference_kernels({&query, &key, &value})) {
    return {};
  }
  RECORD_FUNCTION("attend::one_query_attention",
                  c10::ArrayRef<const c10::IValue>({query, key, value}));
  const auto num_heads = query.size(1);
  const auto heads_per_group = num_heads / key.size(1);
  const auto keys = key.size(2);
  const auto head_dim = query.size(3);
  auto output = torch::empty(query.sizes(), query.options());  // (B, H, 1, D)
  auto* outputs = output.mutable_data_ptr<float>();
  const auto vectors = [](const torch::Tensor& x, int64_t sequence, int64_t head) {
    return x.const_data_ptr<float>() + sequence * x.stride(0) + head * x.stride(1);
  };
  const auto factor = scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
  const auto grain = std::max<int64_t>(1, kElementsForThread / (keys * head_dim));
  in_parallel(query.size(0) * num_heads, grain, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto sequence = i / num_heads;
      const auto head = i % num_heads;
      attend({.query = vectors(query, sequence, head),
              .keys = vectors(key, sequence, head / heads_per_group),
              .values = vectors(value, sequence, head / heads_per_group),
              .output = outputs + i * head_dim,
              .key_stride = key.stride(2),
              .value_stride = value.stride(2),
              .count = keys,
              .head_dim = head_dim,
              .scale = static_cast<float>(factor)});
    }
  });
  return output;
}

}  // namespace attend
