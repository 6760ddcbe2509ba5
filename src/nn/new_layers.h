#pragma once

#include "attend/api.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <optional>

namespace attend {

/// While an object exists, `new_linear`, `new_embedding` and the models of the same thread skip
/// the random initialization, which takes longer than reading the weights from a file. All weights
/// must then be loaded.
class ATTEND_API UninitializedWeights {
 public:
  /// `dtype`: of the weights of linear layers and embeddings.
  explicit UninitializedWeights(torch::ScalarType dtype);
  UninitializedWeights(const UninitializedWeights&) = delete;
  UninitializedWeights& operator=(const UninitializedWeights&) = delete;
  UninitializedWeights(UninitializedWeights&&) = delete;
  UninitializedWeights& operator=(UninitializedWeights&&) = delete;
  ~UninitializedWeights();

  /// The dtype of the innermost object of this thread; empty if there is none.
  static std::optional<torch::ScalarType> dtype();

 private:
  std::optional<torch::ScalarType> outer_;
};

/// torch::nn::LinearImpl that can be cloned if it has low-rank adapters, and whose callers add
/// their products: they call `apply_linear`.
struct ATTEND_API AdaptableLinear : torch::nn::LinearImpl {
  using LinearImpl::LinearImpl;
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};

/// Returns a new `AdaptableLinear`, with the initialization of LibTorch.
ATTEND_API torch::nn::Linear new_linear(const torch::nn::LinearOptions& options);

/// Returns a new embedding, with the initialization of LibTorch.
ATTEND_API torch::nn::Embedding new_embedding(int64_t num_embeddings, int64_t embed_dim);

}  // namespace attend
