#include "attend/nn/multihead_attention.h"

#include "attend/nn/output_gate.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/nn/functional/linear.h>

namespace attend {
namespace {

using Options = MultiheadAttentionOptions;

struct MultiheadAttentionTest : FixedSeed, testing::Test {
  MultiheadAttention attention{8, 2};
  torch::Tensor x = torch::randn({3, 5, 8});
  torch::Tensor memory = torch::randn({3, 7, 8});
};

/// Reference: projects the query, the key and the value separately. Each of the three projections
/// has a weight (H * D, E).
AttentionOutput by_separate_projections(const MultiheadAttention& attention, const torch::Tensor& q,
                                        const torch::Tensor& k, const torch::Tensor& v,
                                        const AttentionArgs& args, int64_t heads) {
  const auto weights = attention->qkv->weight.chunk(3);
  const auto biases = attention->qkv->bias.chunk(3);
  const auto project = [&](const torch::Tensor& input, size_t part) {
    const auto projected = torch::nn::functional::linear(input, weights[part], biases[part]);
    return projected.view({input.size(0), input.size(1), heads, -1}).transpose(1, 2);
  };
  auto [output, attention_weights] =
      attend::dot_product_attention(project(q, 0), project(k, 1), project(v, 2), args);
  const auto joined = output.transpose(1, 2).reshape({q.size(0), q.size(1), -1});
  return {torch::nn::functional::linear(joined, attention->out->weight, attention->out->bias),
          attention_weights};
}

TEST_F(MultiheadAttentionTest, FusedProjectionEqualsThreeSeparateOnes) {
  const auto mask = torch::rand({3, 2, 5, 5}) > 0.3;
  for (const bool causal : {false, true}) {
    const AttentionArgs args{.mask = mask, .causal = causal, .need_weights = true};
    const auto expected = by_separate_projections(attention, x, x, x, args, 2);
    const auto [output, weights] = attention->forward(x, args);
    EXPECT_TRUE(close(output, expected.output, 1e-6));
    EXPECT_TRUE(close(weights, expected.weights, 1e-6));
  }
}

TEST_F(MultiheadAttentionTest, CrossAttentionEqualsThreeSeparateProjections) {
  const auto values = torch::randn({3, 7, 8});
  const AttentionArgs args{.mask = torch::rand({3, 1, 1, 7}) > 0.3, .need_weights = true};
  const auto expected = by_separate_projections(attention, x, memory, values, args, 2);
  const auto [output, weights] = attention->cross(x, memory, values, args);
  EXPECT_TRUE(close(output, expected.output, 1e-6));
  EXPECT_TRUE(close(weights, expected.weights, 1e-6));
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({3, 2, 5, 7}));
}

TEST_F(MultiheadAttentionTest, CrossWithSharedKeyAndValueEqualsSeparateTensors) {
  const auto shared = attention->cross(x, memory, memory).output;
  EXPECT_TRUE(close(shared, attention->cross(x, memory, memory.clone()).output, 1e-6));
}

TEST_F(MultiheadAttentionTest, CrossWithEqualInputsEqualsForward) {
  const AttentionArgs causal{.causal = true};
  EXPECT_TRUE(
      close(attention->cross(x, x, x, causal).output, attention->forward(x, causal).output, 1e-6));
}

TEST_F(MultiheadAttentionTest, CrossWithoutBiasWorks) {
  MultiheadAttention unbiased(Options(8, 2).bias(false));
  EXPECT_TRUE(close(unbiased->cross(x, x, x.clone()).output, unbiased->forward(x).output, 1e-6));
}

TEST_F(MultiheadAttentionTest, NeedWeightsDoesNotChangeTheOutput) {
  for (const bool causal : {false, true}) {
    const auto fused = attention->forward(x, {.causal = causal});
    const auto full = attention->forward(x, {.causal = causal, .need_weights = true});
    EXPECT_FALSE(fused.weights.defined());
    EXPECT_TRUE(close(full.output, fused.output, 1e-6));
    EXPECT_TRUE(close(full.weights.sum(-1), torch::ones({3, 2, 5}), 1e-6));
  }
}

TEST_F(MultiheadAttentionTest, UnbatchedEqualsBatched) {
  const AttentionArgs args{.causal = true, .need_weights = true};
  const auto batched = attention->forward(x, args);
  const auto alone = attention->forward(x[1], args);
  EXPECT_TRUE(close(alone.output, batched.output[1], 1e-6));
  EXPECT_TRUE(close(alone.weights, batched.weights[1], 1e-6));
  EXPECT_TRUE(close(attention->cross(x[1], memory[1], memory[1]).output,
                    attention->cross(x, memory, memory).output[1], 1e-6));
}

TEST_F(MultiheadAttentionTest, MaskMayDifferPerHead) {
  auto mask = torch::ones({1, 2, 5, 5}, torch::kBool);  // (1, H, T, T)
  mask[0][1] = torch::eye(5).to(torch::kBool);
  const auto weights = attention->forward(x, {.mask = mask, .need_weights = true}).weights;
  EXPECT_TRUE((weights.select(1, 0) > 0).all().item<bool>());
  EXPECT_TRUE(close(weights.select(1, 1), torch::eye(5).expand({3, 5, 5}), 1e-6));
}

TEST_F(MultiheadAttentionTest, MaskOfThreeDimensionsThrows) {
  const auto square = torch::randn({2, 5, 8});  // as many sequences as heads
  for (const auto& mask : {torch::ones({2, 5, 5}, torch::kBool), torch::zeros({2, 5, 5})}) {
    for (const auto& input : {square, x}) {
      EXPECT_THAT([&] { attention->forward(input, {.mask = mask}); },
                  throws<c10::ValueError>("mask [2, 5, 5] is ambiguous for batched input: pass "
                                          "mask.unsqueeze(1) (one mask per sequence)"));
    }
  }
  const auto per_head = torch::rand({2, 5, 5}) > 0.3;
  EXPECT_TRUE(close(attention->forward(x[0], {.mask = per_head}).output,
                    attention->forward(x, {.mask = per_head.unsqueeze(0)}).output[0], 1e-6));
}

// In a fully masked row, the input of the output projection is zero. The output of the row is
// therefore the bias of this projection.
TEST_F(MultiheadAttentionTest, FullyMaskedRowGivesTheOutputBias) {
  auto mask = torch::ones({5, 5}, torch::kBool);
  mask[2].fill_(false);
  for (const bool need_weights : {false, true}) {
    const auto y = attention->forward(x, {.mask = mask, .need_weights = need_weights}).output;
    EXPECT_TRUE(close(y.select(1, 2), attention->out->bias.expand({3, 8}), 1e-7));
  }
}

TEST_F(MultiheadAttentionTest, FullyMaskedRowGivesZeros) {
  MultiheadAttention unbiased(Options(8, 2).bias(false));
  auto mask = torch::ones({5, 5}, torch::kBool);
  mask[2].fill_(false);
  const auto y = unbiased->forward(x, {.mask = mask}).output;
  EXPECT_TRUE(close(y.select(1, 2), torch::zeros({3, 8}), 0.0));
}

TEST_F(MultiheadAttentionTest, DropoutIsActiveInTrainingOnly) {
  MultiheadAttention dropping(Options(8, 2).dropout(0.5));
  for (const bool need_weights : {false, true}) {
    const AttentionArgs args{.need_weights = need_weights};
    dropping->train();
    const auto y = dropping->forward(x, args).output;
    EXPECT_FALSE(torch::allclose(y, dropping->forward(x, args).output));
    dropping->eval();
    EXPECT_TRUE(close(dropping->forward(x, args).output, dropping->forward(x, args).output, 0.0));
  }
}

TEST_F(MultiheadAttentionTest, HeadDimMayExceedEmbedDimOverNumHeads) {
  MultiheadAttention wide(Options(8, 3).head_dim(8));  // num_heads need not divide embed_dim
  EXPECT_EQ(wide->qkv->weight.sizes(), at::IntArrayRef({3 * 3 * 8, 8}));
  EXPECT_EQ(wide->out->weight.sizes(), at::IntArrayRef({8, 3 * 8}));
  const auto [output, weights] = wide->forward(x, {.need_weights = true});
  EXPECT_EQ(output.sizes(), at::IntArrayRef({3, 5, 8}));
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({3, 3, 5, 5}));
}

TEST_F(MultiheadAttentionTest, HooksDoNotDependOnLaterChangesOfTheOptions) {
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(output_gate()));
  attention->options.hooks({});
  EXPECT_EQ(attention(torch::zeros({1, 3, 8})).output.sizes(), at::IntArrayRef({1, 3, 8}));
}

TEST_F(MultiheadAttentionTest, SupportsEmptyBatchAndEmptySequence) {
  const AttentionArgs causal{.causal = true};
  EXPECT_EQ(attention->forward(torch::zeros({0, 5, 8}), causal).output.sizes(),
            at::IntArrayRef({0, 5, 8}));
  EXPECT_EQ(attention->forward(torch::zeros({3, 0, 8}), causal).output.sizes(),
            at::IntArrayRef({3, 0, 8}));
  const auto nothing_to_see = attention->cross(x, memory.narrow(1, 0, 0), memory.narrow(1, 0, 0));
  EXPECT_TRUE(close(nothing_to_see.output, attention->out->bias.expand({3, 5, 8}), 1e-7));
}

TEST_F(MultiheadAttentionTest, GradientsEqualFiniteDifferences) {
  MultiheadAttention small(4, 2);
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
  const auto& input = leaves.back();
  auto mask = torch::ones({3, 3}, torch::kBool);
  mask[1].fill_(false);
  EXPECT_TRUE(
      gradients_match([&] { return small->forward(input, {.causal = true}).output; }, leaves));
  EXPECT_TRUE(
      gradients_match([&] { return small->forward(input, {.mask = mask}).output; }, leaves));
  const auto kv = torch::randn({2, 2, 4}, torch::kDouble).requires_grad_();
  leaves.push_back(kv);
  EXPECT_TRUE(gradients_match([&] { return small->cross(leaves[4], kv, kv).output; }, leaves));
}

}  // namespace
}  // namespace attend
