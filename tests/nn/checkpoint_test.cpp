#include "attend/nn/checkpoint.h"

#include "attend/nn/freezing.h"
#include "attend/nn/transformer_block.h"
#include "support/close.h"
#include "support/live_bytes.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <memory>

namespace attend {
namespace {

using TensorMap = std::function<torch::Tensor(const torch::Tensor&)>;

TensorMap forward_of(TransformerBlock block) {
  return [block](const torch::Tensor& x) mutable { return block->forward(x, {.causal = true}); };
}

/// Calls a block, directly or through checkpoint.
using Caller = std::function<torch::Tensor(const TransformerBlock&, const torch::Tensor&)>;
torch::Tensor call_plainly(const TransformerBlock& block, const torch::Tensor& x) {
  return forward_of(block)(x);
}
torch::Tensor call_checkpointed(const TransformerBlock& block, const torch::Tensor& x) {
  return checkpoint(forward_of(block), x, block->parameters());
}

struct CheckpointTest : FixedSeed, testing::Test {
  static TransformerBlock dropping_block() {
    TransformerBlockOptions options(8, 2);
    options.attention().dropout(0.3);
    options.residual().dropout(0.3);
    TransformerBlock block(options);
    block->to(torch::kDouble);
    return block;
  }

  std::vector<TransformerBlock> blocks{dropping_block(), dropping_block(), dropping_block()};
  torch::Tensor x = torch::randn({2, 5, 8}, torch::kDouble).requires_grad_();

  /// Runs the blocks forward and backward. Returns the gradients, the output and the next random
  /// number.
  std::vector<torch::Tensor> outcome(const Caller& call) {
    torch::manual_seed(3);
    auto y = x;
    std::vector<torch::Tensor> leaves{x};
    for (const auto& block : blocks) {
      y = call(block, y);
      for (const auto& parameter : block->parameters()) leaves.push_back(parameter);
    }
    auto results = torch::autograd::grad({y.pow(2).sum()}, leaves);
    results.push_back(y);
    results.push_back(torch::rand({}));
    return results;
  }

  void expect_the_plain_outcome(const Caller& call) {
    const auto expected = outcome(call_plainly);
    const auto found = outcome(call);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(close(found[i], expected[i], 0.0)) << "result " << i;
    }
  }
};

TEST_F(CheckpointTest, EqualsThePlainCallWithDropout) {
  expect_the_plain_outcome(call_checkpointed);
}

TEST_F(CheckpointTest, NestedCheckpointsEqualThePlainCall) {
  expect_the_plain_outcome([](const TransformerBlock& block, const torch::Tensor& input) {
    const auto inner = [&block](const torch::Tensor& h) { return call_checkpointed(block, h); };
    return checkpoint(inner, input, block->parameters());
  });
}

TEST_F(CheckpointTest, BackwardAccumulatesTheSameGradients) {
  auto& block = blocks[0];
  block->eval();
  call_plainly(block, x).sum().backward();
  auto expected = block->attention->qkv->weight.grad().clone();
  const auto y = call_checkpointed(block, x).sum();
  y.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(close(block->attention->qkv->weight.grad(), 2 * expected, 1e-12));
  y.backward();
  EXPECT_TRUE(close(block->attention->qkv->weight.grad(), 3 * expected, 1e-12));
  EXPECT_TRUE(
      close(x.grad() / 3, torch::autograd::grad({call_plainly(block, x).sum()}, {x})[0], 1e-12));
}

TEST_F(CheckpointTest, FrozenAndUnusedParametersGetNoGradient) {
  auto& block = blocks[0];
  freeze(*block->attention);
  auto parameters = block->parameters();
  const auto unused = torch::ones({3}, torch::kDouble).requires_grad_();
  parameters.push_back(unused);
  checkpoint(forward_of(block), x, parameters).sum().backward();
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_FALSE(block->attention->qkv->weight.grad().defined());
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(block->named_parameters()["norm2.weight"].grad().defined());
}

TEST_F(CheckpointTest, SharedParametersAccumulateEachUse) {
  const auto weight = torch::full({}, 3.0).requires_grad_();
  const auto times_weight = [&](const torch::Tensor& h) { return h * weight; };
  const auto once = checkpoint(times_weight, torch::full({}, 2.0), {weight, weight});
  const auto twice = checkpoint(times_weight, once, {weight});  // 2 w^2
  EXPECT_TRUE(close(torch::autograd::grad({twice}, {weight})[0], torch::full({}, 12.0), 0.0));
}

TEST_F(CheckpointTest, SupportsIntegerInputsAndDetachedOutputs) {
  const auto table = torch::randn({4, 3}).requires_grad_();
  const auto tokens = torch::tensor({{1, 3, 1}});
  const auto look_up = [&](const torch::Tensor& t) { return torch::embedding(table, t); };
  checkpoint(look_up, tokens, {table}).sum().backward();
  EXPECT_TRUE(close(table.grad().select(1, 0), torch::tensor({0.0, 2.0, 0.0, 1.0}), 0.0));
  const auto cut_off = [](const torch::Tensor& h) { return h.detach() * 2; };
  const auto gradient = torch::autograd::grad({checkpoint(cut_off, x, {}).sum()}, {x}, {}, false,
                                              false, /*allow_unused=*/true);
  EXPECT_FALSE(gradient[0].defined());
  const auto same = [](const torch::Tensor& h) { return h; };
  EXPECT_TRUE(close(torch::autograd::grad({checkpoint(same, x, {}).sum()}, {x})[0],
                    torch::ones_like(x), 0.0));
}

TEST_F(CheckpointTest, RecomputesOnlyInBackward) {
  int calls = 0;
  const auto count = [&](const torch::Tensor& h) {
    ++calls;
    return h * 2;
  };
  const auto y = checkpoint(count, x, {});
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(checkpoint(count, x, {}).requires_grad());
  EXPECT_EQ(calls, 3);
}

TEST_F(CheckpointTest, UnsupportedUsesThrow) {
  const auto weight = torch::full({}, 3.0).requires_grad_();
  const auto times_weight = [&](const torch::Tensor& h) { return h * weight; };
  const auto y = checkpoint(times_weight, x, {weight}).sum();
  EXPECT_THAT([&] { torch::autograd::grad({y}, {x}, {}, {}, /*create_graph=*/true); },
              throws<c10::NotImplementedError>("checkpoint does not support double backward"));
  EXPECT_THAT(
      [&] { checkpoint(times_weight, x, {weight * torch::ones({2})}); },
      throws<c10::ValueError>("checkpoint parameters must be leaf tensors, found a non-leaf of "
                              "shape [2]"));
  weight.detach().add_(1.0);
  EXPECT_THAT([&] { y.backward(); }, throws<c10::Error>("modified by an inplace operation"));
}

TEST_F(CheckpointTest, FreezingBetweenForwardAndBackwardThrows) {
  const auto weight = torch::full({3, 1}, 3.0).requires_grad_();
  const auto other = torch::ones({1}).requires_grad_();
  const auto h = torch::ones({2}).requires_grad_();
  const auto y =
      checkpoint([&](const torch::Tensor& in) { return in * weight * other; }, h, {weight, other})
          .sum();
  weight.requires_grad_(false);
  EXPECT_THAT([&] { y.backward({}, /*retain_graph=*/true); },
              throws_naming<c10::Error>("checkpoint", "[3, 1]", "requires_grad"));
  EXPECT_NO_THROW(torch::autograd::grad({y}, {h}, {}, /*retain_graph=*/true));
  weight.requires_grad_();
  y.backward();
  EXPECT_TRUE(other.grad().equal(torch::full({1}, 18.0)));
}

int64_t bytes_kept_by_8_blocks(const Caller& call) {
  std::vector<TransformerBlock> stack;
  for (int i = 0; i < 8; ++i) stack.emplace_back(64, 4);
  const auto input = torch::randn({2, 32, 64});
  const LiveBytes live;
  auto y = input;
  for (const auto& block : stack) y = call(block, y);
  return live.count();
}

TEST(Checkpoint, ReducesActivationMemory) {
  const int64_t plain = bytes_kept_by_8_blocks(call_plainly);
  const int64_t checkpointed = bytes_kept_by_8_blocks(call_checkpointed);
  std::cout << "8 blocks of width 64 on (2, 32, 64) store " << plain << " bytes, with checkpoint "
            << checkpointed << "\n";
  constexpr int64_t kOutputs = 8 * 2 * 32 * 64 * static_cast<int64_t>(sizeof(float));
  EXPECT_GE(checkpointed, kOutputs) << "less than the outputs alone: not all memory is counted";
  EXPECT_LT(checkpointed, plain / 5);
}

TEST(Checkpoint, FunctionMayReturnSeveralTensors) {
  const FixedSeed seed;
  const auto x = torch::randn({3}, torch::kDouble).requires_grad_();
  const auto weight = torch::randn({3}, torch::kDouble).requires_grad_();
  int calls = 0;
  const auto function = [&](const std::vector<torch::Tensor>& in) {
    ++calls;
    // A copy of the weight, a view, and a tensor without a gradient are also outputs.
    return std::vector<torch::Tensor>{in[0].sin() * weight, weight.clone(),
                                      (in[0] * weight).narrow(0, 1, 2), in[0].detach().exp()};
  };
  const auto gradients = [&](const std::vector<torch::Tensor>& out) {
    const auto loss =
        out[0].sum() + 2 * out[1].pow(2).sum() + 3 * out[2].exp().sum() + out[3].sum();
    return torch::autograd::grad({loss}, {x, weight});
  };
  const auto expected = gradients(function({x}));
  const auto found = gradients(checkpoint(function, std::vector<torch::Tensor>{x}, {weight}));
  EXPECT_EQ(calls, 3);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-12)) << i;
  // Only one of the outputs is used.
  const auto view = checkpoint(function, std::vector<torch::Tensor>{x}, {weight})[2];
  EXPECT_TRUE(close(torch::autograd::grad({view.sum()}, {weight})[0],
                    torch::cat({torch::zeros({1}, torch::kDouble), x.detach().narrow(0, 1, 2)}),
                    1e-12));
}

}  // namespace
}  // namespace attend
