#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/nn/cloneable.h"

#include <torch/expanding_array.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `PatchEmbedding`.
///
///     PatchEmbeddingOptions(224, 16, 3, 768).class_token(true)
struct PatchEmbeddingOptions {
  /// Options for images of C channels and the given height and width, and for patches of the given
  /// height and width. One number stands for both.
  PatchEmbeddingOptions(torch::ExpandingArray<2> image_size, torch::ExpandingArray<2> patch_size,
                        int64_t in_channels, int64_t embed_dim)
      : image_size_(image_size),
        patch_size_(patch_size),
        in_channels_(in_channels),
        embed_dim_(embed_dim) {}

  /// Height and width of the images, multiples of `patch_size`.
  ATTEND_ARG(torch::ExpandingArray<2>, image_size);
  /// Height and width of the patches.
  ATTEND_ARG(torch::ExpandingArray<2>, patch_size);
  /// Number of channels C of the images.
  ATTEND_ARG(int64_t, in_channels);
  /// Width E of the embeddings.
  ATTEND_ARG(int64_t, embed_dim);
  /// If true, a learned class token precedes the patches.
  ATTEND_ARG(bool, class_token) = false;
  /// If true, the projection has a bias.
  ATTEND_ARG(bool, bias) = true;
  /// Dropout probability of the sum of patches and positions.
  ATTEND_ARG(double, dropout) = 0.0;
};

/// Splits images into patches and maps each patch to a vector, the tokens of a Vision Transformer
/// (Dosovitskiy et al. 2021, section 3.1). The N patches are in row-major order. A learned vector
/// per position is added.
///
/// State dict: the Conv2d `projection`, `position` (N, E) or, with a class token, (N + 1, E), and
/// with a class token, `class_token` (1, E).
///
///     PatchEmbedding embedding(PatchEmbeddingOptions(224, 16, 3, 768).class_token(true));
///     auto x = embedding(images);  // (B, 3, 224, 224) -> (B, 197, 768)
///     auto y = encoder(x).select(-2, 0);  // the class token: (B, 768)
class ATTEND_API PatchEmbeddingImpl : public Cloneable<PatchEmbeddingImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range.
  explicit PatchEmbeddingImpl(const PatchEmbeddingOptions& options);

  /// `images` (B, C, height, width) or (C, height, width); returns (B, N, E) or (N, E), with a
  /// class token N + 1 instead of N. Throws c10::ValueError if the images have another shape.
  torch::Tensor forward(const torch::Tensor& images);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  PatchEmbeddingOptions options;          ///< options passed to the constructor
  torch::nn::Conv2d projection{nullptr};  ///< maps each patch to a vector
  torch::Tensor class_token;              ///< (1, E); undefined if there is none
  torch::Tensor position;                 ///< position embedding (N, E) or (N + 1, E)
  torch::nn::Dropout dropout{nullptr};    ///< dropout of the sum
};
TORCH_MODULE(PatchEmbedding);

}  // namespace attend
