// Attention in blocks of queries gives the same results and gradients as the plain path, which
// computes all scores at once.
#include "ops/block_attention.h"

#include "attend/nn/alibi.h"
#include "attend/nn/attention_sinks.h"
#include "attend/nn/freezing.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/self_attention.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/soft_cap.h"
#include "attend/ops/attention_recorder.h"
#include "attend/ops/masks.h"
#include "support/block_limits.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/live_bytes.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/csrc/autograd/autograd.h>

namespace attend {
namespace {

/// The arguments of one attention call. The tensors that `leaves` returns require gradients.
struct Call {
  torch::Tensor query = {};
  torch::Tensor key = {};
  torch::Tensor value = {};
  torch::Tensor sinks = {};
  torch::Tensor offset_bias = {};  // (H, S + T - 1)
  AttentionArgs args = {};
  ScoreOptions options = {};

  std::vector<torch::Tensor> leaves() const {
    std::vector<torch::Tensor> result{query, key, value};
    if (sinks.defined()) result.push_back(sinks);
    if (offset_bias.defined()) result.push_back(offset_bias);
    return result;
  }

  torch::Tensor in_blocks(int64_t rows) const {
    const BlockLimitsGuard limits({.rows = rows});
    return attend_in_blocks(query, key, value, args, options, offset_bias,
                            /*self_attention=*/false);
  }

  /// Computes the call with the plain path. `offset_bias` becomes a bias (H, T, S).
  torch::Tensor plainly() const {
    auto plain = options;
    if (offset_bias.defined()) {
      const auto index = key_offsets(query, key) + key.size(-2) - 1;  // (T, S)
      plain.bias = offset_bias.index_select(-1, index.flatten())
                       .unflatten(-1, {query.size(-2), key.size(-2)});
    }
    return dot_product_attention(query, key, value, args, plain).output;
  }
};

bool maybe() {
  return draw(0, 1) == 1;
}

torch::Tensor leaf(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::kDouble).requires_grad_();
}

/// Draws a call with random sizes, masks and options.
Call draw_call_for_blocks() {
  const int64_t batch = draw(1, 3);
  const int64_t groups = draw(1, 2);
  const int64_t heads = groups * draw(1, 2);
  const int64_t queries = draw(1, 14);
  const int64_t keys = maybe() ? queries : draw(1, 16);
  const int64_t value_width = maybe() ? 4 : draw(1, 5);
  const bool batched = maybe();
  const auto sizes = [&](int64_t count, int64_t tokens, int64_t width) {
    return batched ? std::vector<int64_t>{batch, count, tokens, width}
                   : std::vector<int64_t>{count, tokens, width};
  };
  Call call{.query = leaf(sizes(heads, queries, 4)),
            .key = leaf(sizes(groups, keys, 4)),
            .value = leaf(sizes(groups, keys, value_width))};
  const auto per_token = [&](int64_t tokens) {
    return batched && maybe() ? std::vector<int64_t>{batch, tokens} : std::vector<int64_t>{tokens};
  };
  call.args.causal = maybe();
  if (maybe()) call.args.sliding_window = draw(1, 8);
  if (draw(0, 3) == 0) call.args.key_mask = torch::rand(per_token(keys)) > 0.3;
  if (draw(0, 3) == 0) call.args.mask = torch::rand({queries, keys}) > 0.3;
  if (draw(0, 3) == 0) call.args.mask = torch::randn({maybe() ? queries : 1, keys}, torch::kDouble);
  if (draw(0, 3) == 0) {
    call.args.segments = torch::randint(3, per_token(queries));
    call.args.key_segments = torch::randint(3, per_token(keys));
  }
  if (maybe()) {
    call.offset_bias = leaf({heads, queries + keys - 1});
  } else if (draw(0, 2) == 0) {
    call.args.positions = torch::randint(20, per_token(queries));
    call.args.key_positions = torch::randint(20, per_token(keys));
  }
  if (maybe()) call.options.scale = 0.3;
  if (draw(0, 3) == 0) call.options.soft_cap = 2.0;
  if (draw(0, 3) == 0) {
    call.sinks = leaf({heads});
    call.options.sinks = call.sinks;
  }
  return call;
}

TEST(BlockAttention, EqualsThePlainPathInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto call = draw_call_for_blocks();
    const auto rows = draw(1, 6);
    SCOPED_TRACE(testing::Message() << "case " << i << ": query " << call.query.sizes() << ", key "
                                    << call.key.sizes() << ", rows " << rows);
    auto leaves = call.leaves();
    leaves.push_back(call.args.mask);
    {
      const torch::NoGradGuard no_grad;
      ASSERT_TRUE(within_rounding(call.in_blocks(rows), leaves, [&] { return call.plainly(); }));
    }
    const auto weight = torch::randn_like(call.plainly()).detach();
    leaves.push_back(weight);
    const auto with_gradients = [&](const torch::Tensor& y) {
      Tensors results{y};
      const auto computed =
          torch::autograd::grad({(y * weight).sum()}, call.leaves(), {}, {}, false, true);
      for (std::size_t j = 0; j < computed.size(); ++j)
        results.push_back(computed[j].defined() ? computed[j]
                                                : torch::zeros_like(call.leaves()[j]));
      return results;
    };
    ASSERT_TRUE(within_rounding(with_gradients(call.in_blocks(rows)), leaves,
                                [&] { return with_gradients(call.plainly()); }));
  }
}

TEST(BlockAttention, QueriesWithoutKeysHaveTheBatchOfTheKeys) {
  const Call call{.query = leaf({1, 2, 14, 4}),
                  .key = leaf({3, 2, 5, 4}),
                  .value = leaf({3, 2, 5, 4}),
                  .args = {.causal = true, .sliding_window = 1}};
  EXPECT_TRUE(close(call.in_blocks(/*rows=*/4), call.plainly(), 1e-10));
}

TEST(BlockAttention, FrozenInputsGetNoGradient) {
  const FixedSeed seed;
  const auto x = torch::randn({1, 2, 9, 4});
  const auto sinks = torch::randn({2}).requires_grad_();
  const auto bias = torch::randn({2, 17}).requires_grad_();
  const ScoreOptions options{.sinks = sinks};
  const BlockLimitsGuard limits({.rows = 4});
  const auto y = attend_in_blocks(x, x, x, {.causal = true}, options, bias, true);
  for (const auto& gradient : torch::autograd::grad({y.sum()}, {sinks, bias}, {}, true)) {
    EXPECT_TRUE(gradient.abs().sum().gt(0).item<bool>());
  }
  const auto only_bias = torch::autograd::grad({y.sum()}, {bias});
  EXPECT_EQ(only_bias[0].sizes(), bias.sizes());
}

TEST(BlockAttention, ForwardAndBackwardDropTheSameWeights) {
  const FixedSeed seed;
  const auto value = torch::randn({1, 2, 40, 4}, torch::kDouble).requires_grad_();
  const auto query = torch::randn({1, 2, 40, 4}, torch::kDouble);
  const ScoreOptions options{.dropout = 0.5};
  const auto run = [&] {
    torch::manual_seed(5);
    const BlockLimitsGuard limits({.rows = 16});
    return attend_in_blocks(query, query, value, {.causal = true}, options, {}, true);
  };
  // The output is linear in the values. If forward and backward use the same dropout mask, the sum
  // of gradient * value therefore equals the sum of the outputs.
  const auto y = run();
  torch::rand({7});  // the backward pass must not depend on the state of the generator
  const auto gradient = torch::autograd::grad({y.sum()}, {value})[0];
  EXPECT_NEAR((gradient * value).sum().item<double>(), y.sum().item<double>(), 1e-9);
  const auto after = torch::rand({});
  run();
  torch::rand({7});
  EXPECT_TRUE(close(torch::rand({}), after, 0.0)) << "backward has changed the generator";
}

TEST(BlockAttention, MasksChangedInPlaceBeforeBackwardThrow) {
  const auto x = torch::randn({1, 2, 9, 4}).requires_grad_();
  auto key_mask = torch::ones({9}, torch::kBool);
  const BlockLimitsGuard limits({.rows = 4});
  const auto y = attend_in_blocks(x, x, x, {.key_mask = key_mask}, {}, {}, true);
  key_mask.zero_();
  EXPECT_THAT([&] { y.sum().backward(); }, throws<c10::Error>("modified by an inplace operation"));
}

TEST(BlockAttention, DoubleBackwardEqualsThePlainPathInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 30; ++i) {
    const auto call = draw_call_for_blocks();
    const auto rows = draw(1, 6);
    SCOPED_TRACE(testing::Message() << "case " << i << ": query " << call.query.sizes() << ", key "
                                    << call.key.sizes() << ", rows " << rows);
    const auto leaves = call.leaves();
    const auto sum_of = [](const std::vector<torch::Tensor>& tensors) {
      auto sum = torch::zeros({}, torch::kDouble);
      for (const auto& x : tensors)
        if (x.defined()) sum = sum + x.sin().sum();
      return sum;
    };
    const auto second_gradients = [&](const torch::Tensor& y) {
      const auto first = torch::autograd::grad({y.square().sum()}, leaves, {}, {}, true, true);
      auto second =
          torch::autograd::grad({sum_of(first) + sum_of(leaves)}, leaves, {}, {}, false, true);
      for (std::size_t j = 0; j < second.size(); ++j)
        if (!second[j].defined()) second[j] = torch::zeros_like(leaves[j]);
      return second;
    };
    const auto plainly = [&] {
      const AttentionRecorder recorder;
      return second_gradients(call.plainly());
    };
    EXPECT_TRUE(within_rounding(second_gradients(call.in_blocks(rows)), leaves, plainly));
  }
}

TEST(BlockAttention, DoubleBackwardDropsTheSameWeights) {
  const FixedSeed seed;
  const auto x = torch::randn({1, 2, 9, 4}, torch::kDouble).requires_grad_();
  const BlockLimitsGuard limits({.rows = 4});
  const auto y = attend_in_blocks(x, x, x, {.causal = true}, {.dropout = 0.5}, {}, true);
  const auto gradient = [&](bool create_graph) {
    return torch::autograd::grad({y.square().sum()}, {x}, {}, true, create_graph)[0];
  };
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-12));
  torch::manual_seed(2);
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-12));
}

TEST(BlockAttention, ComputesForwardDerivatives) {
  const FixedSeed seed;
  const auto x = torch::randn({1, 2, 9, 4}, torch::kDouble).requires_grad_();
  const auto tangent = torch::randn_like(x);
  const AttentionArgs args{.causal = true, .sliding_window = 3};
  const BlockLimitsGuard limits({.rows = 4});
  const auto in_blocks = [&](const torch::Tensor& in) {
    return attend_in_blocks(in, in, in, args, {}, {}, true);
  };
  const auto plainly = [&] {
    const AttentionRecorder recorder;
    return forward_derivative(
        [&](const torch::Tensor& in) { return dot_product_attention(in, in, in, args).output; }, x,
        tangent);
  };
  EXPECT_TRUE(within_rounding(forward_derivative(in_blocks, x, tangent), {x, tangent}, plainly));
}

// Tests of attention modules on long sequences. The modules compute attention in blocks, or with
// the plain path if an AttentionRecorder exists.

struct LongSequence {
  std::string name;
  std::vector<AttentionHookFactory> hooks = {};
  int64_t length = 2100;
  AttentionArgs args = {.causal = true};

  friend std::ostream& operator<<(std::ostream& stream, const LongSequence& self) {
    return stream << self.name;
  }
};

std::vector<LongSequence> long_sequences() {
  return {{"SlidingWindow", {sliding_window(100)}, 600},
          {"WindowInBothDirections", {sliding_window(70)}, 600, {}},
          {"Alibi", {alibi()}},
          {"AlibiInBothDirections", {alibi()}, 2100, {}},
          {"RelativeBias", {relative_bias({.bidirectional = false})}},
          {"RelativeBiasWithWindow", {relative_bias(), sliding_window(90)}, 600},
          {"SoftCap", {soft_cap(3.0)}},
          {"Sinks", {attention_sinks(), alibi(), sliding_window(64)}, 600},
          {"Padding", {}, 2100, {.key_mask = torch::arange(2100) < 2000, .causal = true}}};
}

struct AttentionOfLongSequences : FixedSeed, testing::TestWithParam<LongSequence> {
  AttentionOfLongSequences() { attention->to(torch::kDouble); }

  MultiheadAttention attention{
      MultiheadAttentionOptions(8, 4).num_kv_heads(2).hooks(GetParam().hooks)};
  torch::Tensor x = torch::randn({1, GetParam().length, 8}, torch::kDouble).requires_grad_();

  std::vector<torch::Tensor> leaves() {
    auto result = attention->parameters();
    result.push_back(x);
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(, AttentionOfLongSequences, testing::ValuesIn(long_sequences()),
                         testing::PrintToStringParamName());

TEST_P(AttentionOfLongSequences, EqualsThePlainPath) {
  const auto run = [&] {
    const auto y = attention->forward(x, GetParam().args).output;
    auto results = torch::autograd::grad({y.pow(2).sum()}, leaves());
    results.push_back(y);
    return results;
  };
  const auto found = run();
  const AttentionRecorder plain;
  const auto expected = run();
  ASSERT_EQ(plain.weights().size(), 1U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double size = expected[i].abs().max().item<double>();
    EXPECT_TRUE(close(found[i], expected[i], 1e-11 * size + 1e-11)) << "result " << i;
  }
}

TEST_P(AttentionOfLongSequences, MemoryGrowsLinearly) {
  const auto peak = [&](int64_t length, bool with_gradients) {
    const torch::AutoGradMode grad_mode(with_gradients);
    auto args = GetParam().args;
    if (args.key_mask.defined()) args.key_mask = torch::arange(length) < length - 9;
    const auto input = torch::randn({1, length, 8}, torch::kDouble);
    const LiveBytes live;
    const auto y = attention->forward(input, args).output;
    if (with_gradients) y.sum().backward();
    return live.peak();
  };
  for (const bool with_gradients : {false, true}) {
    const auto once = peak(GetParam().length, with_gradients);
    const auto twice = peak(2 * GetParam().length, with_gradients);
    EXPECT_LT(static_cast<double>(twice), 2.3 * static_cast<double>(once)) << with_gradients;
  }
}

TEST(BlockAttention, MemoryGrowsLinearlyWithoutFusedKernel) {
  const FixedSeed seed;
  const auto peak = [](int64_t length, int64_t v_dim, double dropout) {
    const auto x = torch::randn({1, 2, length, 4}).requires_grad_();
    const auto v = torch::randn({1, 2, length, v_dim});
    const LiveBytes live;
    for (const bool causal : {true, false}) {
      dot_product_attention(x, x, v, {.causal = causal}, {.dropout = dropout})
          .output.sum()
          .backward();
    }
    return static_cast<double>(live.peak());
  };
  EXPECT_LT(peak(4200, 4, 0.2), 2.3 * peak(2100, 4, 0.2)) << "dropout";
  EXPECT_LT(peak(4200, 3, 0.0), 2.3 * peak(2100, 3, 0.0)) << "values of another width";
}

TEST(BlockAttention, IsUsedForLongSequencesOnly) {
  const FixedSeed seed;
  const auto uses_blocks = [](int64_t length, const AttentionArgs& args,
                              const ScoreOptions& options = {}) {
    const auto x = torch::zeros({1, 2, length, 4});
    return computes_in_blocks(x, x, x, args, options, false);
  };
  EXPECT_TRUE(uses_blocks(600, {.causal = true, .sliding_window = 64}));
  EXPECT_FALSE(uses_blocks(600, {.causal = true, .sliding_window = 500}))
      << "blocks would save no time";
  EXPECT_FALSE(uses_blocks(300, {.causal = true, .sliding_window = 64}));
  EXPECT_FALSE(uses_blocks(4096, {.causal = true})) << "the kernel needs no mask";
  EXPECT_FALSE(uses_blocks(4096, {})) << "the kernel needs no mask";
  EXPECT_TRUE(uses_blocks(4096, {.causal = true}, {.soft_cap = 1.0}));
  EXPECT_TRUE(uses_blocks(4096, {.causal = true}, {.dropout = 0.1}))
      << "the fused CPU kernel does not support dropout";
  EXPECT_FALSE(uses_blocks(1000, {.causal = true}, {.dropout = 0.1}));
  EXPECT_TRUE(uses_blocks(4096, {.key_mask = torch::ones({4096}, torch::kBool)}));
  EXPECT_FALSE(uses_blocks(4096, {.mask = torch::zeros({4096, 4096}).requires_grad_()}));
  EXPECT_FALSE(uses_blocks(4096, {.causal = true, .sliding_window = 64, .need_weights = true}));
  const AttentionRecorder recorder;
  EXPECT_FALSE(uses_blocks(4096, {.causal = true, .sliding_window = 64}));
}

TEST(BlockAttention, TracesOfLongSequencesGeneralizeToOtherSizes) {
  const FixedSeed seed;
  MultiheadAttention attention(
      MultiheadAttentionOptions(8, 2).add(alibi()).add(sliding_window(50)));
  freeze(*attention);
  const auto run = [&](const Tensors& in) {
    return attention->forward(in[0], {.causal = true}).output;
  };
  const auto traced = trace(run, {torch::randn({1, 600, 8})});
  for (const int64_t length : {5, 700}) {
    const Tensors other{torch::randn({2, length, 8})};
    EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << length;
  }
}

TEST(BlockAttention, SelfAttentionOfLongSequencesEqualsThePlainPath) {
  const FixedSeed seed;
  SelfAttention attention(SelfAttentionOptions(6));
  for (const auto& x : {torch::randn({2, 600, 6}), torch::randn({600, 6})}) {
    const AttentionArgs args{.causal = true, .sliding_window = 40};
    const auto found = attention->forward(x, args).output;
    const AttentionRecorder plain;
    EXPECT_TRUE(close(found, attention->forward(x, args).output, 1e-5));
  }
}

}  // namespace
}  // namespace attend
