#include "nn/new_layers.h"

namespace attend {
namespace {

thread_local std::optional<torch::ScalarType> uninitialized_dtype;

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

// The constructors of LibTorch initialize the weights, so the layers are created with one element.

torch::nn::Linear new_linear(const torch::nn::LinearOptions& options) {
  const auto dtype = UninitializedWeights::dtype();
  if (!dtype) return torch::nn::Linear(options);
  auto small = options;
  torch::nn::Linear linear(small.in_features(1).out_features(1));
  linear->options = options;
  linear->weight.set_data(torch::empty({options.out_features(), options.in_features()}, *dtype));
  if (options.bias()) linear->bias.set_data(torch::empty({options.out_features()}, *dtype));
  return linear;
}

torch::nn::Embedding new_embedding(int64_t num_embeddings, int64_t embed_dim) {
  const torch::nn::EmbeddingOptions options(num_embeddings, embed_dim);
  const auto dtype = UninitializedWeights::dtype();
  if (!dtype) return torch::nn::Embedding(options);
  torch::nn::Embedding embedding(1, 1);
  embedding->options = options;
  embedding->weight.set_data(torch::empty({num_embeddings, embed_dim}, *dtype));
  return embedding;
}

}  // namespace attend
