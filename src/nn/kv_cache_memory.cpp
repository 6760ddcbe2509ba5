// The part of KvCache for cross-attention: keys and values of a memory, such as an encoder's
// output.
#include "attend/nn/kv_cache.h"

namespace attend {
namespace {

/// Returns the version counter of `tensor`, which increases with each in-place change. Returns 0
/// for inference tensors, which have no version counter.
int64_t version_of(const torch::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

}  // namespace

std::pair<torch::Tensor, torch::Tensor> KvCache::memory_keys(
    int64_t layer, const torch::Tensor& memory, torch::Dtype dtype,
    c10::function_ref<std::pair<torch::Tensor, torch::Tensor>()> project) {
  check_layer(layer);
  auto& cached = memory_[static_cast<std::size_t>(layer)];
  const bool is_current = cached.memory.is_same(memory) && cached.version == version_of(memory) &&
                          cached.key.scalar_type() == dtype;
  if (!is_current) {
    const auto [key, value] = project();
    // Stored as contiguous tensors, because each generation step reads them again.
    cached = {memory, version_of(memory), key.contiguous(), value.contiguous()};
  }
  return {cached.key, cached.value};
}

}  // namespace attend
