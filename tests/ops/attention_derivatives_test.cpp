// Second derivatives and forward-mode derivatives of attention, and NaN in masked values: the same
// for all shapes and dtypes, with and without the kernels of attend. CTest runs these tests with
// ATTEND_FAST=0, too.
#include "attend/nn/transformer_block.h"
#include "attend/ops/attention.h"
#include "attend/ops/attention_recorder.h"
#include "support/gradient.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <tuple>

namespace attend {
namespace {

struct DerivativeShape {
  int64_t heads, groups, queries, keys, width, value_width;

  friend std::ostream& operator<<(std::ostream& stream, const DerivativeShape& self) {
    return stream << self.heads << "_" << self.groups << "_" << self.queries << "_" << self.keys
                  << "_" << self.width << "_" << self.value_width;
  }
};

using DerivativeCase = std::tuple<DerivativeShape, torch::Dtype>;

struct AttentionDerivatives : FixedSeed, testing::TestWithParam<DerivativeCase> {
  const DerivativeShape shape = std::get<0>(GetParam());
  const torch::Dtype dtype = std::get<1>(GetParam());
  const Tensors inputs{draw_input(shape.heads, shape.queries, shape.width),
                       draw_input(shape.groups, shape.keys, shape.width),
                       draw_input(shape.groups, shape.keys, shape.value_width)};

  torch::Tensor draw_input(int64_t heads, int64_t tokens, int64_t width) const {
    return torch::randn({2, heads, tokens, width}).to(dtype);
  }

  std::vector<AttentionArgs> all_args() const {
    const auto mask = torch::rand({shape.queries, shape.keys}) > 0.3;
    return {{},
            {.causal = true},
            {.mask = mask},
            {.mask = torch::randn({shape.queries, shape.keys})},
            {.key_mask = torch::rand({2, shape.keys}) > 0.3, .causal = true}};
  }

  static torch::Tensor run(const Tensors& in, const AttentionArgs& args) {
    return dot_product_attention(in[0], in[1], in[2], args).output;
  }
};

INSTANTIATE_TEST_SUITE_P(
    , AttentionDerivatives,
    testing::Combine(
        testing::Values(DerivativeShape{2, 2, 5, 5, 16, 16}, DerivativeShape{2, 2, 16, 16, 16, 16},
                        DerivativeShape{2, 2, 20, 31, 16, 16},
                        DerivativeShape{4, 2, 17, 17, 16, 16}, DerivativeShape{2, 2, 1, 7, 16, 16},
                        DerivativeShape{2, 2, 7, 9, 5, 3}, DerivativeShape{2, 2, 20, 20, 8, 8}),
        testing::Values(torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf)),
    [](const auto& test) {
      return testing::PrintToString(std::get<0>(test.param)) + "_" +
             toString(std::get<1>(test.param));
    });

TEST_P(AttentionDerivatives, SecondGradientsEqualThoseOfTheWeights) {
  for (const auto& args : all_args()) {
    const auto second_gradients = [&](const Tensors& in) {
      Tensors leaves;
      for (const auto& x : in) leaves.push_back(x.detach().requires_grad_());
      const auto first = torch::autograd::grad({run(leaves, args).square().sum()}, leaves, {}, {},
                                               /*create_graph=*/true);
      const auto sum = first[0].sin().sum() + first[1].sin().sum() + first[2].sin().sum();
      return torch::autograd::grad({sum}, leaves);
    };
    EXPECT_TRUE(equals_in_float64(second_gradients(inputs), inputs, [&](const Tensors& in) {
      const AttentionRecorder recorder;  // attention then consists of operators
      return second_gradients(in);
    }));
  }
}

TEST_P(AttentionDerivatives, ForwardDerivativesEqualThoseOfTheWeights) {
  for (const auto& args : all_args()) {
    for (std::size_t i = 0; i < 3; ++i) {
      const auto tangent = torch::randn_like(inputs[i]);
      const auto derivative = [&](const Tensors& in) {
        const auto of_input = [&](const torch::Tensor& x) {
          Tensors all{in[0], in[1], in[2]};
          all[i] = x;
          return run(all, args);
        };
        return forward_derivative(of_input, in[i], in[3]);
      };
      const Tensors in{inputs[0], inputs[1], inputs[2], tangent};
      EXPECT_TRUE(equals_in_float64(derivative(in), in,
                                    [&](const Tensors& exact) {
                                      const AttentionRecorder recorder;
                                      return derivative(exact);
                                    }))
          << "input " << i;
    }
  }
}

TEST_P(AttentionDerivatives, GradientsWithAndWithoutAGraphAreTheSame) {
  for (const auto& args : all_args()) {
    const auto gradients = [&](const Tensors& in, bool create_graph) {
      Tensors leaves;
      for (const auto& x : in) leaves.push_back(x.detach().requires_grad_());
      return torch::autograd::grad({run(leaves, args).square().sum()}, leaves, {}, {},
                                   create_graph);
    };
    const auto exact = [&](const Tensors& in) { return gradients(in, false); };
    EXPECT_TRUE(equals_in_float64(gradients(inputs, true), inputs, exact));
    EXPECT_TRUE(equals_in_float64(gradients(inputs, false), inputs, exact));
  }
}

struct AttentionHooksAndViews : FixedSeed, testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Tokens, AttentionHooksAndViews, testing::Values(5, 20));

TEST_P(AttentionHooksAndViews, DoubleBackwardCallsHooksOnce) {
  const auto x = torch::randn({1, 2, GetParam(), 16});
  const auto second_gradient = [&](const Tensors& in) {
    const auto leaf = in[0].detach().requires_grad_();
    leaf.register_hook([](const torch::Tensor& gradient) { return 2 * gradient; });
    const auto y = dot_product_attention(leaf, leaf, leaf.cos(), {.causal = true}).output;
    const auto first =
        torch::autograd::grad({y.square().sum()}, {leaf}, {}, {}, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.sin().sum()}, {leaf})[0];
  };
  EXPECT_TRUE(equals_in_float64(second_gradient({x}), {x}, [&](const Tensors& in) {
    const AttentionRecorder recorder;
    return second_gradient(in);
  }));
}

// LibTorch computes a weight of 0 times NaN in some of its kernels.
struct MaskedNaN : FixedSeed, testing::TestWithParam<DerivativeCase> {};

INSTANTIATE_TEST_SUITE_P(, MaskedNaN,
                         testing::Combine(testing::Values(DerivativeShape{2, 2, 5, 5, 16, 16},
                                                          DerivativeShape{2, 2, 20, 20, 16, 16},
                                                          DerivativeShape{4, 2, 20, 20, 16, 16},
                                                          DerivativeShape{2, 2, 9, 9, 5, 3},
                                                          DerivativeShape{2, 2, 600, 600, 16, 16}),
                                          testing::Values(torch::kFloat, torch::kDouble,
                                                          torch::kBFloat16)),
                         [](const auto& test) {
                           return testing::PrintToString(std::get<0>(test.param)) + "_" +
                                  toString(std::get<1>(test.param));
                         });

TEST_P(MaskedNaN, InAValueReachesExactlyTheQueriesThatAttendToIt) {
  const auto& [shape, dtype] = GetParam();
  const auto q = torch::randn({2, shape.heads, shape.queries, shape.width}).to(dtype);
  const auto k = torch::randn({2, shape.groups, shape.keys, shape.width}).to(dtype);
  const auto v = torch::randn({2, shape.groups, shape.keys, shape.value_width}).to(dtype);
  const auto clean = dot_product_attention(q, k, v, {.causal = true}).output;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), kInfinity, -kInfinity}) {
    SCOPED_TRACE(value);
    auto bad = v.clone();
    bad.select(2, 3).select(-1, 1).fill_(value);  // a channel of token 3
    const auto y = dot_product_attention(q, k, bad, {.causal = true}).output;
    auto expected = clean.clone();
    expected.narrow(2, 3, shape.queries - 3).select(-1, 1).fill_(value);
    EXPECT_TRUE(torch::allclose(y, expected, 1e-2, 1e-2, /*equal_nan=*/true)) << y << expected;
  }
}

TEST(DoubleBackwardOfABlock, IsTheSameForAllLengths) {
  const FixedSeed seed;
  TransformerBlock block(TransformerBlockOptions(32, 2));
  for (const int64_t tokens : {1, 5, 16, 40}) {
    const auto x = torch::randn({2, tokens, 32});
    const auto second_gradient = [](auto& module, const Tensors& in) {
      const auto leaf = in[0].detach().requires_grad_();
      const auto y = module->forward(leaf, AttentionArgs{.causal = true});
      const auto first =
          torch::autograd::grad({y.square().sum()}, {leaf}, {}, {}, /*create_graph=*/true)[0];
      return torch::autograd::grad({first.square().sum()}, {leaf})[0];
    };
    EXPECT_TRUE(equals_in_float64(second_gradient(block, {x}), block, {x},
                                  [&](auto& exact, const Tensors& in) {
                                    const AttentionRecorder recorder;
                                    return second_gradient(exact, in);
                                  }))
        << tokens;
  }
}

}  // namespace
}  // namespace attend
