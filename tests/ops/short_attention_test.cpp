// The attention of short sequences that a kernel of this library computes, compared with attention
// in float64, which LibTorch's operators compute.
#include "attend/ops/attention.h"
#include "attend/ops/attention_recorder.h"
#include "attend/ops/fast_kernels.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
#include "support/close.h"
#include "support/kernels.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/vmap.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/utils.h>

#include <array>
#include <cmath>

namespace attend {
namespace {

using Inputs = std::array<torch::Tensor, 3>;  // query, key, value

struct Sizes {
  int64_t batch = 2;
  int64_t heads = 2;
  int64_t queries = 20;
  int64_t keys = 20;
  int64_t head_dim = 16;
};

/// Draws heads with rows that are contiguous, or as a projection to all heads lays them out.
torch::Tensor draw_heads(const Sizes& sizes, int64_t tokens, torch::ScalarType type) {
  const auto [batch, heads, queries, keys, head_dim] = sizes;
  if (draw(0, 1) == 0) return torch::randn({batch, heads, tokens, head_dim}).to(type);
  const auto all = torch::randn({batch, tokens, 3 * heads, head_dim}).to(type);
  return all.narrow(2, draw(0, 2 * heads), heads).transpose(1, 2);
}

Inputs draw_inputs(const Sizes& sizes, torch::ScalarType type = torch::kFloat) {
  return {draw_heads(sizes, sizes.queries, type), draw_heads(sizes, sizes.keys, type),
          draw_heads(sizes, sizes.keys, type)};
}

torch::Tensor run(const Inputs& inputs, const AttentionArgs& args = {.causal = true},
                  const ScoreOptions& options = {}) {
  return dot_product_attention(inputs[0], inputs[1], inputs[2], args, options).output;
}

Inputs leaves_of(const Inputs& inputs, torch::ScalarType type) {
  Inputs leaves;
  for (std::size_t i = 0; i < 3; ++i) leaves[i] = inputs[i].detach().to(type).requires_grad_();
  return leaves;
}

bool uses_kernel(const Inputs& inputs, const AttentionArgs& args = {.causal = true},
                 const ScoreOptions& options = {}) {
  return operators_of([&] { run(inputs, args, options); }).count("attend::short_attention") == 1;
}

struct ShortAttention : FixedSeed, testing::Test {
  void SetUp() override {
    if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  }
  Inputs inputs = draw_inputs({});
};

TEST_F(ShortAttention, ValuesAndGradientsEqualFloat64ForRandomInputs) {
  seed_afresh();
  for (int i = 0; i < 60; ++i) {
    const bool causal = draw(0, 1) == 1;
    Sizes sizes{.batch = draw(1, 3),
                .heads = draw(1, 3),
                .queries = draw(16, 90),
                .keys = draw(1, 90),
                .head_dim = 16 * draw(1, 8)};
    if (causal) sizes.keys = sizes.queries;  // else LibTorch's kernel gets a mask
    const auto type = draw(0, 1) == 1 ? torch::kFloat : torch::kBFloat16;
    ScoreOptions options;
    if (draw(0, 1) == 1) {
      // With a scale of 0 or less, causal attention gets a mask. Large scores would have large
      // rounding errors in float32, in any kernel.
      const auto factor = static_cast<double>(draw(causal ? 1 : -20, 20)) / 20;
      options.scale = factor / std::sqrt(static_cast<double>(sizes.head_dim));
    }
    const auto drawn = draw_inputs(sizes, type);
    SCOPED_TRACE(testing::Message()
                 << type << " query " << drawn[0].sizes() << " key " << drawn[1].sizes()
                 << " causal " << causal << " scale " << options.scale.value_or(NAN));
    const AttentionArgs args{.causal = causal};
    ASSERT_TRUE(uses_kernel(drawn, args, options));
    // Returns the output and the gradients of query, key and value.
    const auto compute = [&](const Tensors& in) -> Tensors {
      const auto leaves = leaves_of({in[0], in[1], in[2]}, in[0].scalar_type());
      const auto y = run(leaves, args, options);
      y.backward(in[3]);
      return {y, leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
    };
    const Tensors in{drawn[0], drawn[1], drawn[2], torch::randn(drawn[0].sizes()).to(type)};
    const auto found = compute(in);
    EXPECT_EQ(found[0].scalar_type(), type);
    EXPECT_TRUE(equals_in_float64(found, in, compute, {.dtype = torch::kFloat}));  // sums
  }
}

TEST_F(ShortAttention, IsUsedOnlyForShortSequencesWithoutMaskAndDropout) {
  EXPECT_TRUE(uses_kernel(inputs));
  EXPECT_TRUE(uses_kernel(inputs, {.causal = false}));
  EXPECT_FALSE(uses_kernel(inputs, {.causal = true}, {.dropout = 0.5}));
  EXPECT_FALSE(uses_kernel(inputs, {.causal = true}, {.soft_cap = 10.0}));
  EXPECT_FALSE(uses_kernel(inputs, {.key_mask = torch::ones({2, 20}) > 0}));
  EXPECT_FALSE(uses_kernel(draw_inputs({.queries = 1})));
  EXPECT_FALSE(uses_kernel(draw_inputs({.queries = 513, .keys = 513})));
  EXPECT_TRUE(uses_kernel(draw_inputs({.queries = 512, .keys = 512}, torch::kBFloat16)));
  EXPECT_FALSE(uses_kernel(draw_inputs({.queries = 513, .keys = 513}, torch::kBFloat16)));
  EXPECT_FALSE(uses_kernel(draw_inputs({.head_dim = 8})));
  EXPECT_FALSE(uses_kernel(draw_inputs({.batch = 0})));
  EXPECT_FALSE(uses_kernel(draw_inputs({}, torch::kDouble)));
  const auto grouped = draw_inputs({.heads = 1});
  EXPECT_FALSE(uses_kernel({inputs[0], grouped[1], grouped[2]}));
}

TEST_F(ShortAttention, ComputesOnlyRequiredGradients) {
  const auto all = leaves_of(inputs, torch::kFloat);
  run(all).sum().backward();  // of an expanded gradient
  for (std::size_t required = 0; required < 3; ++required) {
    auto some = inputs;
    some[required] = inputs[required].detach().clone().requires_grad_();
    run(some).sum().backward();
    EXPECT_TRUE(torch::equal(some[required].grad(), all[required].grad())) << required;
  }
}

TEST_F(ShortAttention, BitsDependNeitherOnThreadsNorOnGradMode) {
  const auto compute = [&](int threads) {
    torch::set_num_threads(threads);
    const auto leaves = leaves_of(inputs, torch::kFloat);
    const auto y = run(leaves);
    y.square().sum().backward();
    return std::vector{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const int before = torch::get_num_threads();
  const auto single = compute(1);
  const auto two = compute(2);
  torch::set_num_threads(before);
  for (std::size_t i = 0; i < single.size(); ++i) EXPECT_TRUE(torch::equal(single[i], two[i])) << i;
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(run(inputs), single[0]));
}

TEST_F(ShortAttention, SupportsDoubleBackward) {
  const auto second_gradients = [&](torch::ScalarType type) {
    const auto leaves = leaves_of(inputs, type);
    const auto first = torch::autograd::grad({run(leaves).square().sum()},
                                             {leaves[0], leaves[1], leaves[2]}, {}, {}, true);
    const auto sum = first[0].sin().sum() + first[1].sin().sum() + first[2].sin().sum();
    return torch::autograd::grad({sum}, {leaves[0], leaves[1], leaves[2]});
  };
  const auto found = second_gradients(torch::kFloat);
  // A recorder is needed, because LibTorch's kernel has no second derivative.
  const auto expected = [&] {
    const AttentionRecorder recorder;
    return second_gradients(torch::kDouble);
  }();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-4)) << i;
}

TEST_F(ShortAttention, SupportsDoubleBackwardOfInputsThatDependOnEachOtherAndHaveHooks) {
  const auto second_gradient = [&](torch::ScalarType type) {
    const auto x = inputs[0].detach().to(type).requires_grad_();
    x.register_hook([](const torch::Tensor& gradient) { return 2 * gradient; });
    const auto loss = run({x, x, x.cos()}).square().sum();
    const auto first = torch::autograd::grad({loss}, {x}, {}, {}, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.sin().sum()}, {x})[0];
  };
  const auto found = second_gradient(torch::kFloat);
  const AttentionRecorder recorder;  // without LibTorch's kernel, as above
  const auto expected = second_gradient(torch::kDouble);
  EXPECT_TRUE(close(found, expected, 1e-5 * expected.abs().max().item<double>()));
}

TEST_F(ShortAttention, IsNotUsedInsideVmap) {
  const auto leaves = leaves_of(inputs, torch::kFloat);
  const auto expected = run(leaves);
  const auto found = [&] {
    const InVmap vmap;
    EXPECT_FALSE(uses_kernel(leaves));
    return run(leaves);
  }();
  EXPECT_TRUE(close(found, expected, 1e-5));
}

TEST_F(ShortAttention, NaNReachesExactlyTheQueriesThatAttendToIt) {
  inputs[1] = inputs[1].contiguous();
  inputs[1].select(2, 7).fill_(NAN);                              // the key of token 7
  const auto is_nan = run(inputs).isnan().all(-1).all(0).all(0);  // (T)
  EXPECT_TRUE(torch::equal(is_nan, torch::arange(20) >= 7)) << is_nan;
  EXPECT_FALSE(run(inputs).narrow(2, 0, 7).isnan().any().item<bool>());
}

TEST_F(ShortAttention, LargeScoresDoNotOverflow) {
  for (auto& input : inputs) input = input * 1e3;
  const Inputs exact{inputs[0].to(torch::kDouble), inputs[1].to(torch::kDouble),
                     inputs[2].to(torch::kDouble)};
  EXPECT_TRUE(close(run(inputs), run(exact), 50.0));  // scores of 1e6 have errors of 0.1
  EXPECT_TRUE(run(inputs).isfinite().all().item<bool>());
}

TEST_F(ShortAttention, IsCastByAutocast) {
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  const auto leaves = leaves_of(inputs, torch::kFloat);
  const auto y = run(leaves);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(leaves[0].grad().scalar_type(), torch::kFloat);
}

TEST_F(ShortAttention, IsNotTraced) {
  const auto trace = [&](torch::jit::Stack stack) {
    return torch::jit::Stack{run({stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()})};
  };
  const auto name = [](const torch::Tensor& /*value*/) { return std::string(); };
  const auto graph = torch::jit::tracer::trace({inputs[0], inputs[1], inputs[2]}, trace, name)
                         .first->graph->toString();
  EXPECT_NE(graph.find("aten::scaled_dot_product_attention"), std::string::npos) << graph;
}

TEST_F(ShortAttention, IsCountedAsTheSameFlops) {
  const auto flops = [&](const Inputs& of) {
    const FlopCounter counter;
    run(of);
    return counter.flops();
  };
  EXPECT_EQ(flops(inputs), flops(leaves_of(inputs, torch::kDouble)));
}

}  // namespace
}  // namespace attend
