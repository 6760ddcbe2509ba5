#include "nn/new_layers.h"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include <memory>
#include <utility>

namespace attend {
namespace {

thread_local std::optional<torch::ScalarType> uninitialized_dtype;

/// Asks the system for pages of 2 MiB, which it clears and maps in a fraction of the time. Without
/// them, this takes longer than reading the weights.
void use_large_pages([[maybe_unused]] const torch::Tensor& weight) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t kPageBytes = std::size_t{2} << 20;
  void* begin = weight.data_ptr();
  std::size_t bytes = weight.nbytes();
  if (std::align(kPageBytes, kPageBytes, begin, bytes) == nullptr) return;
  // An error does not matter: the pages are small then.
  static_cast<void>(::madvise(begin, bytes / kPageBytes * kPageBytes, MADV_HUGEPAGE));
#endif
}

torch::Tensor uninitialized(torch::IntArrayRef sizes, torch::ScalarType dtype) {
  auto weight = torch::empty(sizes, dtype);
  use_large_pages(weight);
  return weight;
}

}  // namespace

UninitializedWeights::UninitializedWeights(torch::ScalarType dtype) : outer_(uninitialized_dtype) {
  uninitialized_dtype = dtype;
}

UninitializedWeights::~UninitializedWeights() {
  uninitialized_dtype = outer_;
}

std::optional<torch::ScalarType> UninitializedWeights::dtype() {
  return uninitialized_dtype;
}

std::shared_ptr<torch::nn::Module> AdaptableLinear::clone(
    const std::optional<torch::Device>& device) const {
  const torch::NoGradGuard no_grad;
  auto copy = std::make_shared<AdaptableLinear>(*this);  // with the same parameters
  copy->parameters_.clear();
  for (const auto& item : parameters_) {
    const auto& parameter = item.value();
    const bool requires_grad = parameter.defined() && parameter.requires_grad();
    const auto to = [&] {
      return device ? parameter.to(*device, /*non_blocking=*/false, /*copy=*/true)
                    : parameter.clone();
    };
    copy->register_parameter(item.key(), parameter.defined() ? to() : parameter, requires_grad);
  }
  copy->weight = copy->parameters_["weight"];
  copy->bias = copy->parameters_["bias"];
  for (const auto& child : named_children()) {
    copy->unregister_module(child.key());
    copy->register_module(child.key(), child.value()->clone(device));
  }
  return copy;
}

// The constructors of LibTorch initialize the weights, so the layers are created with one element.

torch::nn::Linear new_linear(const torch::nn::LinearOptions& options) {
  const auto dtype = UninitializedWeights::dtype();
  const auto holder = [](std::shared_ptr<torch::nn::LinearImpl> layer) {
    return torch::nn::Linear(std::move(layer));
  };
  if (!dtype) return holder(std::make_shared<AdaptableLinear>(options));
  auto small = options;
  const auto linear = std::make_shared<AdaptableLinear>(small.in_features(1).out_features(1));
  linear->options = options;
  linear->weight.set_data(uninitialized({options.out_features(), options.in_features()}, *dtype));
  if (options.bias()) linear->bias.set_data(uninitialized({options.out_features()}, *dtype));
  return holder(linear);
}

torch::nn::Embedding new_embedding(int64_t num_embeddings, int64_t embed_dim) {
  const torch::nn::EmbeddingOptions options(num_embeddings, embed_dim);
  const auto dtype = UninitializedWeights::dtype();
  if (!dtype) return torch::nn::Embedding(options);
  torch::nn::Embedding embedding(1, 1);
  embedding->options = options;
  embedding->weight.set_data(uninitialized({num_embeddings, embed_dim}, *dtype));
  return embedding;
}

}  // namespace attend
