#include "attend/nn/patch_embedding.h"

#include "support/close.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/serialize.h>

namespace attend {
namespace {

/// Images with C = 2, height 4 and width 6, patches of height 2 and width 3, E = 5.
PatchEmbeddingOptions small() {
  return PatchEmbeddingOptions({4, 6}, {2, 3}, 2, 5);
}

struct PatchEmbeddingTest : FixedSeed, testing::Test {
  const torch::NoGradGuard no_grad;
};

/// The sum over a patch, computed with loops in float64.
torch::Tensor expected_patches(const PatchEmbedding& embedding, const torch::Tensor& images) {
  const auto weight = embedding->projection->weight.to(torch::kDouble);
  auto result = torch::zeros({images.size(0), 4, 5}, torch::kDouble);
  for (int64_t b = 0; b < images.size(0); ++b) {
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t column = 0; column < 2; ++column) {
        const auto patch =
            images[b].slice(1, 2 * row, 2 * row + 2).slice(2, 3 * column, 3 * column + 3);
        for (int64_t e = 0; e < 5; ++e) {
          result[b][2 * row + column][e] = (patch.to(torch::kDouble) * weight[e]).sum();
        }
      }
    }
  }
  if (embedding->projection->bias.defined()) result += embedding->projection->bias;
  return result;
}

TEST_F(PatchEmbeddingTest, ProjectsPatchesInRowMajorOrderAndAddsPositions) {
  for (const bool bias : {true, false}) {
    PatchEmbedding embedding(small().bias(bias));
    const auto images = torch::randn({3, 2, 4, 6});
    const auto expected = expected_patches(embedding, images) + embedding->position;
    EXPECT_TRUE(close(embedding(images).to(torch::kDouble), expected, 1e-5));
    EXPECT_TRUE(close(embedding(images[1]).to(torch::kDouble), expected[1], 1e-5));
  }
}

TEST_F(PatchEmbeddingTest, ClassTokenPrecedesThePatches) {
  PatchEmbedding embedding(small().class_token(true));
  const auto images = torch::randn({3, 2, 4, 6});
  const auto x = embedding(images);
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{3, 5, 5}));
  const auto& position = embedding->position;
  EXPECT_TRUE(close(x.select(1, 0), (embedding->class_token + position[0]).expand({3, 5}), 0.0));
  EXPECT_TRUE(close(x.slice(1, 1).to(torch::kDouble),
                    expected_patches(embedding, images) + position.slice(0, 1), 1e-5));
  EXPECT_TRUE(close(embedding(images[2]), x[2], 1e-6));
}

TEST_F(PatchEmbeddingTest, StateDictHasTheDocumentedNames) {
  EXPECT_THAT(state_names(*PatchEmbedding(small())),
              testing::UnorderedElementsAre("position", "projection.weight", "projection.bias"));
  EXPECT_THAT(state_names(*PatchEmbedding(small().class_token(true).bias(false))),
              testing::UnorderedElementsAre("class_token", "position", "projection.weight"));
}

TEST_F(PatchEmbeddingTest, CloneAndLoadedFileGiveTheSameOutput) {
  PatchEmbedding embedding(small().class_token(true));
  const auto images = torch::randn({1, 2, 4, 6});
  const auto copy = std::dynamic_pointer_cast<PatchEmbeddingImpl>(embedding->clone());
  EXPECT_TRUE(close(copy->forward(images), embedding(images), 0.0));
  const TemporaryDirectory directory;
  torch::save(embedding, (directory / "f").string());
  PatchEmbedding loaded(small().class_token(true));
  torch::load(loaded, (directory / "f").string());
  EXPECT_TRUE(close(loaded(images), embedding(images), 0.0));
}

TEST_F(PatchEmbeddingTest, TraceGeneralizesToOtherBatchSizes) {
  for (const bool class_token : {false, true}) {
    PatchEmbedding embedding(small().class_token(class_token));
    freeze(*embedding);
    const auto run = [&](const Tensors& in) { return embedding(in[0]); };
    const auto traced = trace(run, {torch::randn({2, 2, 4, 6})});
    const Tensors other{torch::randn({5, 2, 4, 6})};
    EXPECT_TRUE(close(traced(other), run(other), 1e-6));
  }
}

TEST_F(PatchEmbeddingTest, DropoutIsAppliedInTrainingMode) {
  PatchEmbedding embedding(small().dropout(0.5));
  const auto images = torch::randn({1, 2, 4, 6});
  EXPECT_TRUE(embedding(images).eq(0).any().item<bool>());
  embedding->eval();
  EXPECT_FALSE(embedding(images).eq(0).any().item<bool>());
}

TEST_F(PatchEmbeddingTest, WrongImagesThrow) {
  PatchEmbedding embedding(small());
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {1, 3, 4, 6}, {1, 2, 6, 4}, {1, 2, 4, 7}, {4, 6}, {1, 1, 2, 4, 6}}) {
    EXPECT_THAT([&] { embedding(torch::randn(shape)); },
                throws_naming<c10::ValueError>("[2, 4, 6]", c10::str(c10::IntArrayRef(shape))));
  }
}

TEST_F(PatchEmbeddingTest, WrongOptionsThrow) {
  const auto make = [](const PatchEmbeddingOptions& options) {
    return [options] { PatchEmbedding{options}; };
  };
  EXPECT_THAT(make({{4, 6}, {2, 4}, 2, 5}), throws_naming<c10::ValueError>("image_size", "6", "4"));
  EXPECT_THAT(make({{4, 0}, {2, 3}, 2, 5}), throws_naming<c10::ValueError>("image_size", "0"));
  EXPECT_THAT(make({{4, 6}, {0, 3}, 2, 5}), throws_naming<c10::ValueError>("patch_size", "0"));
  EXPECT_THAT(make({4, 2, 0, 5}), throws_naming<c10::ValueError>("in_channels", "0"));
  EXPECT_THAT(make({4, 2, 2, -1}), throws_naming<c10::ValueError>("embed_dim", "-1"));
  EXPECT_THAT(make(small().dropout(1.0)), throws_naming<c10::ValueError>("dropout", "1"));
}

TEST_F(PatchEmbeddingTest, PrettyPrintShowsTheOptions) {
  EXPECT_THAT(printed(*PatchEmbedding(small().class_token(true))),
              testing::StartsWith("attend::PatchEmbedding(image_size=[4, 6], patch_size=[2, 3], "
                                  "in_channels=2, embed_dim=5, class_token=true, dropout=0)"));
}

}  // namespace
}  // namespace attend
