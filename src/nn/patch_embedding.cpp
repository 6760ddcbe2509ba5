#include "attend/nn/patch_embedding.h"

#include "nn/checks.h"

#include <torch/nn/init.h>

namespace attend {
namespace {

/// Standard deviation of new class tokens and positions, as in BERT and in the Vision Transformer.
constexpr double kStandardDeviation = 0.02;

/// Returns the number of patches along a dimension.
int64_t num_patches(const PatchEmbeddingOptions& options, std::size_t dimension) {
  const auto size = options.image_size()->at(dimension);
  const auto patch = options.patch_size()->at(dimension);
  check_positive("image_size", size);
  check_positive("patch_size", patch);
  TORCH_CHECK_VALUE(size % patch == 0, "image_size (", size, ") must be divisible by patch_size (",
                    patch, ")");
  return size / patch;
}

}  // namespace

PatchEmbeddingImpl::PatchEmbeddingImpl(const PatchEmbeddingOptions& options) : options(options) {
  reset();
}

void PatchEmbeddingImpl::reset() {
  const auto width = options.embed_dim();
  check_positive("in_channels", options.in_channels());
  check_positive("embed_dim", width);
  check_probability("dropout", options.dropout());
  const auto patches = num_patches(options, 0) * num_patches(options, 1);
  use("projection", &PatchEmbeddingImpl::projection,
      torch::nn::Conv2d(torch::nn::Conv2dOptions(options.in_channels(), width, options.patch_size())
                            .stride(options.patch_size())
                            .bias(options.bias())));
  class_token = torch::Tensor();
  if (options.class_token())
    class_token = register_parameter("class_token", torch::empty({1, width}));
  position = register_parameter("position",
                                torch::empty({patches + (options.class_token() ? 1 : 0), width}));
  for (const auto& parameter : {class_token, position}) {
    if (parameter.defined()) torch::nn::init::normal_(parameter, 0.0, kStandardDeviation);
  }
  use("dropout", &PatchEmbeddingImpl::dropout, torch::nn::Dropout(options.dropout()));
}

torch::Tensor PatchEmbeddingImpl::forward(const torch::Tensor& images) {
  const std::vector<int64_t> expected{options.in_channels(), options.image_size()->at(0),
                                      options.image_size()->at(1)};
  TORCH_CHECK_VALUE(
      (images.dim() == 3 || images.dim() == 4) &&
          images.sizes().slice(images.dim() - 3) == expected,
      "PatchEmbedding expects images (B, C, height, width) or (C, height, width) with (C, height, "
      "width) = ",
      c10::IntArrayRef(expected), ", found ", images.sizes());
  auto x = projection(images).flatten(-2).transpose(-2, -1);  // (..., N, E)
  if (class_token.defined()) {
    // expand_as has no size as an argument, so an exported program accepts any batch size.
    const auto token = class_token.expand_as(x.narrow(-2, 0, 1));  // (..., 1, E)
    x = torch::cat({token, x}, -2);                                // (..., N + 1, E)
  }
  return dropout(x + position);
}

void PatchEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::PatchEmbedding(image_size=" << options.image_size()
         << ", patch_size=" << options.patch_size() << ", in_channels=" << options.in_channels()
         << ", embed_dim=" << options.embed_dim() << std::boolalpha
         << ", class_token=" << options.class_token() << ", dropout=" << options.dropout() << ")";
}

}  // namespace attend
