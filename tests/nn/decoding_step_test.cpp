#include "attend/nn/branch_scale.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/rotary.h"
#include "attend/nn/transformer_block.h"
#include "attend/ops/attention_recorder.h"
#include "attend/ops/fast_kernels.h"
#include "attend/ops/flop_counter.h"
#include "attend/ops/linear.h"
#include "ops/autocast.h"
#include "support/close.h"
#include "support/kernels.h"
#include "support/quantized.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

namespace attend {
namespace {

constexpr auto kAttentionStep = "attend::attention_step";
constexpr auto kFeedForwardStep = "attend::feed_forward_step";

struct DecodingStep : FixedSeed, testing::Test {
  void SetUp() override {
    if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  }
};

KvCache make_cache(const MultiheadAttentionOptions& options, int64_t batch) {
  return KvCache(
      KvCacheOptions()
          .num_layers(1)
          .batch_size(batch)
          .num_kv_heads(options.num_kv_heads().value_or(options.num_heads()))
          .head_dim(options.head_dim().value_or(options.embed_dim() / options.num_heads()))
          .max_seq_len(40));
}

/// Returns the attention of the tokens of `x` (B, T, E), which are appended to a cache in steps: a
/// random number of tokens, then one at a time.
torch::Tensor in_steps(MultiheadAttention& attention, const torch::Tensor& x) {
  auto cache = make_cache(attention->options, x.size(0));
  const auto prompt = draw(0, x.size(1) - 1);
  std::vector<torch::Tensor> outputs;
  for (int64_t t = 0; t < x.size(1);) {
    const auto count = t == 0 && prompt > 0 ? prompt : 1;
    cache.extend(count);
    const auto tokens = x.narrow(1, t, count).contiguous();
    outputs.push_back(attention->forward(tokens, {.causal = true}, {.cache = &cache}).output);
    t += count;
  }
  return torch::cat(outputs, 1);
}

TEST_F(DecodingStep, AttentionEqualsAttentionWithoutCacheForRandomOptions) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 60; ++i) {
    const auto groups = draw(1, 3), heads = groups * draw(1, 3), width = draw(1, 40);
    const auto head_dim = draw(1, 40), batch = draw(1, 8), tokens = draw(2, 20);
    MultiheadAttentionOptions options(width, heads);
    options.num_kv_heads(groups).head_dim(head_dim).bias(draw(0, 1) == 1);
    options.qkv_bias(draw(0, 1) == 1).dropout(0.1);
    if (draw(0, 1) == 1) options.scale(0.3);
    MultiheadAttention attention(options);
    attention->eval();
    // Weights of other strides are supported, too.
    if (draw(0, 1) == 1)
      attention->out->weight.set_data(
          torch::randn({width, heads * head_dim + 3}).slice(1, 1, heads * head_dim + 1));
    const auto x = torch::randn({batch, tokens, width});
    SCOPED_TRACE(testing::Message() << *attention << ", x " << x.sizes());
    torch::Tensor y;
    const auto operators = operators_of([&] { y = in_steps(attention, x); });
    EXPECT_EQ(operators.count(kAttentionStep), 1);
    EXPECT_TRUE(equals_in_float64(y, attention, {x}, [](auto& exact, const Tensors& in) {
      return exact->forward(in[0], {.causal = true}).output;
    }));
  }
}

TEST_F(DecodingStep, ReadsCopiesOfWeights) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (const auto format : {WeightFormat::int8, WeightFormat::int4}) {
    SCOPED_TRACE(to_string(format));
    // Smaller weights have no copies, such as that of `out`.
    MultiheadAttention attention(MultiheadAttentionOptions(256, 4));
    FeedForward feed_forward{FeedForwardOptions(256)};
    ASSERT_TRUE(prepare_weight(attention->qkv->weight, format));
    ASSERT_TRUE(prepare_weight(feed_forward->up->weight, format));
    ASSERT_TRUE(prepare_weight(feed_forward->down->weight, format));
    attention->eval();
    feed_forward->eval();
    const auto x = torch::randn({1, 3, 256}), rows = torch::randn({5, 256});
    torch::Tensor attended, fed;
    const auto operators = operators_of([&] {
      attended = in_steps(attention, x);
      fed = feed_forward->forward(rows);
    });
    EXPECT_EQ(operators.count(kAttentionStep), 1);
    EXPECT_EQ(operators.count("attend::feed_forward_step"), 1);
    const auto equals_copies = [&](const auto& holder, const torch::Tensor& found,
                                   const torch::Tensor& input, const auto& forward) {
      auto exact =
          std::dynamic_pointer_cast<typename std::decay_t<decltype(holder)>::ContainedType>(
              holder->clone());
      exact->to(torch::kDouble);
      take_copies(*exact, *holder);
      const auto in = input.to(torch::kDouble);
      return within_rounding(
          found, leaves_of(*exact, {in}), [&]() -> torch::Tensor { return forward(*exact, in); },
          rounding_of_integers(/*terms=*/1024));
    };
    EXPECT_TRUE(equals_copies(attention, attended, x, [](auto& exact, const auto& in) {
      return exact.forward(in, {.causal = true}).output;
    }));
    EXPECT_TRUE(equals_copies(feed_forward, fed, rows,
                              [](auto& exact, const auto& in) { return exact.forward(in); }));
  }
}

/// Returns whether a step of one token is computed by one call. Its output must be that of
/// attention without a cache.
bool is_one_call(const MultiheadAttentionOptions& options,
                 const AttentionArgs& args = {.causal = true},
                 const std::function<void(MultiheadAttention&)>& change = {},
                 AttentionHook* hook = nullptr) {
  MultiheadAttention attention(options);
  attention->eval();
  if (change) change(attention);
  auto cache = make_cache(options, 2);
  const auto x = torch::randn({2, 1, options.embed_dim()});
  torch::Tensor y;
  const auto operators = operators_of([&] {
    cache.extend(1);
    y = attention->forward(x, args, {.cache = &cache, .hook = hook}).output;
  });
  if (!attention->is_training()) {
    EXPECT_TRUE(close(y, attention->forward(x, args, {.hook = hook}).output, 1e-5));
  }
  return operators.count(kAttentionStep) == 1;
}

TEST_F(DecodingStep, OtherCallsOfAttentionUseTheOperators) {
  const MultiheadAttentionOptions options(8, 2);
  const auto causal = AttentionArgs{.causal = true};
  const auto train = [](MultiheadAttention& attention) { attention->train(); };
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(is_one_call(options));
  EXPECT_TRUE(is_one_call(options, causal, train));  // without dropout
  EXPECT_FALSE(is_one_call(MultiheadAttentionOptions(8, 2).dropout(0.5), causal, train));
  EXPECT_FALSE(is_one_call(MultiheadAttentionOptions(8, 2).add(rotary())));
  EXPECT_FALSE(is_one_call(options, causal, [](MultiheadAttention& attention) {
    attention->qkv->weight = torch::randn({8, 24}).t();  // its rows are not contiguous
  }));
  EXPECT_FALSE(is_one_call(options, {.causal = true, .sliding_window = 1}));
  EXPECT_FALSE(is_one_call(options, {.causal = true, .need_weights = true}));
  EXPECT_FALSE(is_one_call(options, {.mask = torch::ones({1, 1}, torch::kBool)}));
  AttentionHook hook;
  EXPECT_FALSE(is_one_call(options, causal, {}, &hook));
  {
    const AttentionRecorder recorder;
    EXPECT_FALSE(is_one_call(options));
    EXPECT_EQ(recorder.weights().size(), 2);
  }
  const NoInferenceKernelsGuard guard;
  EXPECT_FALSE(is_one_call(options));
}

TEST_F(DecodingStep, RejectsWhatAttentionRejects) {
  const torch::NoGradGuard no_grad;
  MultiheadAttention attention(8, 2);
  attention->eval();
  auto cache = make_cache(attention->options, 1);
  const auto step = [&](const AttentionArgs& args) {
    return attention->forward(torch::randn({1, 1, 8}), args, {.cache = &cache}).output;
  };
  EXPECT_THROW(step({.causal = true}), c10::ValueError);  // without extend
  cache.extend(1);
  EXPECT_THROW(step({.causal = false}), c10::ValueError);
  const auto zeros = torch::zeros({1}, torch::kLong);
  EXPECT_THROW(step({.key_positions = zeros, .causal = true}), c10::ValueError);
  EXPECT_THROW(step({.key_segments = zeros, .causal = true}), c10::ValueError);
  EXPECT_NO_THROW(step({.causal = true}));
  EXPECT_THROW(step({.causal = true}), c10::ValueError);  // twice
}

TEST_F(DecodingStep, WritesToTheCacheWhatAppendWrites) {
  const torch::NoGradGuard no_grad;
  MultiheadAttention attention(MultiheadAttentionOptions(12, 4).num_kv_heads(2));
  attention->eval();
  const auto x = torch::randn({3, 5, 12});
  auto cache = make_cache(attention->options, 3);
  auto other = make_cache(attention->options, 3);
  for (int64_t t = 0; t < 4; ++t) {
    cache.extend(1);
    const auto token = x.narrow(1, t, 1).contiguous();
    const auto operators =
        operators_of([&] { attention->forward(token, {.causal = true}, {.cache = &cache}); });
    EXPECT_EQ(operators.count(kAttentionStep), 1);
  }
  other.extend(4);
  attention->forward(x.narrow(1, 0, 4), {.causal = true}, {.cache = &other});
  for (auto* each : {&cache, &other}) each->select_rows({2, 0});
  for (auto* each : {&cache, &other}) each->truncate({3, 3});
  cache.extend(2);
  other.extend(2);
  const auto last = x.narrow(1, 3, 2).index_select(0, torch::tensor({2, 0}));
  EXPECT_TRUE(close(attention->forward(last, {.causal = true}, {.cache = &cache}).output,
                    attention->forward(last, {.causal = true}, {.cache = &other}).output, 1e-6));
}

TEST_F(DecodingStep, FeedForwardEqualsLibTorchForRandomOptions) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  constexpr auto kLast = static_cast<int64_t>(EnumNames<Activation>::names.size()) - 1;
  for (int i = 0; i < 60; ++i) {
    const auto activation = static_cast<Activation>(draw(0, kLast));
    const auto width = draw(1, 70);
    FeedForward module(FeedForwardOptions(width)
                           .dim_feedforward(draw(1, 200))
                           .activation(activation)
                           .bias(draw(0, 1) == 1)
                           .dropout(0.1));
    module->eval();
    const auto x = draw(0, 1) == 1 ? torch::randn({draw(1, 2), draw(1, 4), width})
                                   : torch::randn({draw(1, 8), width});
    SCOPED_TRACE(testing::Message() << *module << ", x " << x.sizes());
    torch::Tensor y;
    EXPECT_EQ(operators_of([&] { y = module->forward(x); }).count(kFeedForwardStep), 1);
    EXPECT_TRUE(equals_in_float64(
        y, module, {x}, [](auto& exact, const Tensors& in) { return exact->forward(in[0]); }));
  }
}

TEST_F(DecodingStep, OtherCallsOfFeedForwardUseTheOperators) {
  FeedForward module(FeedForwardOptions(8).dropout(0.5));
  module->eval();
  const auto is_one_call = [&](const torch::Tensor& x) {
    torch::Tensor y;
    return operators_of([&] { y = module->forward(x); }).count(kFeedForwardStep) == 1;
  };
  const auto x = torch::randn({1, 2, 8});
  EXPECT_FALSE(is_one_call(x));  // the parameters require gradients
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(is_one_call(x));
  EXPECT_FALSE(is_one_call(torch::randn({1, 9, 8})));
  EXPECT_FALSE(is_one_call(torch::randn({1, 0, 8})));
  EXPECT_FALSE(is_one_call(torch::randn({8, 2}).t()));
  module->train();
  EXPECT_FALSE(is_one_call(x));
  module->eval();
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  EXPECT_FALSE(is_one_call(x));
}

/// Returns the output of a block for the tokens of `x`, which are appended to a cache one at a
/// time.
torch::Tensor in_steps(TransformerBlock& block, const torch::Tensor& x) {
  auto cache = make_cache(block->options.attention(), x.size(0));
  std::vector<torch::Tensor> outputs;
  for (int64_t t = 0; t < x.size(1); ++t) {
    cache.extend(1);
    const auto token = x.narrow(1, t, 1).contiguous();
    outputs.push_back(block->forward(token, {.causal = true}, {.cache = &cache}));
  }
  return torch::cat(outputs, 1);
}

TEST_F(DecodingStep, BlockEqualsBlockWithoutCacheForRandomOptions) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 100; ++i) {
    const auto groups = draw(1, 2), heads = groups * draw(1, 3);
    TransformerBlockOptions options(heads * draw(1, 12), heads);
    options.attention().num_kv_heads(groups).bias(draw(0, 1) == 1);
    options.feed_forward()
        .bias(draw(0, 1) == 1)
        .activation(draw(0, 1) == 1 ? Activation::gelu : Activation::swiglu);
    options.dropout(draw(0, 1) == 1 ? 0.1 : 0.0);
    const auto order = static_cast<NormOrder>(draw(0, 4));
    options.residual().norm_order(order).stochastic_depth(draw(0, 1) == 1 ? 0.1 : 0.0);
    const auto norm = draw(0, 3);
    if (norm > 0)
      options.residual().norm(norm == 1   ? rms_norm(1e-6)  // the default depends on the dtype
                              : norm == 2 ? layer_norm(1e-2, false)
                                          : l2_norm());
    // A LayerNorm of two channels is almost discontinuous: its output depends on the larger one.
    if (options.attention().embed_dim() == 2 && (norm == 0 || norm == 2)) continue;
    const bool scales = draw(0, 3) == 0;
    if (scales) options.residual().branch_scale(constant_scale(0.5));
    TransformerBlock block(options);
    block->eval();
    for (auto& parameter : block->parameters()) parameter.add_(torch::rand_like(parameter) * 0.1);
    const auto x = torch::randn({draw(1, 8), draw(1, 10), options.attention().embed_dim()});
    SCOPED_TRACE(testing::Message() << *block << ", x " << x.sizes());
    torch::Tensor y;
    const auto operators = operators_of([&] { y = in_steps(block, x); });
    EXPECT_EQ(operators.count(kAttentionStep), 1);
    // The norms and sums of the usual block are part of the calls.
    const bool is_usual = order == NormOrder::pre && norm < 3 && !scales;
    EXPECT_EQ(operators.count("aten::add"), is_usual ? 0 : 1);
    EXPECT_TRUE(equals_in_float64(y, block, {x}, [](auto& exact, const Tensors& in) {
      return exact->forward(in[0], {.causal = true});
    }));
  }
}

TEST_F(DecodingStep, BlocksInTrainingModeDropElements) {
  const torch::NoGradGuard no_grad;
  TransformerBlockOptions options(8, 2);
  options.residual().dropout(0.5);
  TransformerBlock block(options);
  const auto x = torch::randn({2, 1, 8});
  EXPECT_FALSE(torch::equal(in_steps(block, x), in_steps(block, x)));
  block->eval();
  EXPECT_TRUE(torch::equal(in_steps(block, x), in_steps(block, x)));
}

TEST_F(DecodingStep, CountsTheOperationsOfAllProducts) {
  const torch::NoGradGuard no_grad;
  MultiheadAttention attention(MultiheadAttentionOptions(12, 4).num_kv_heads(2));
  FeedForward feed_forward(12);
  attention->eval();
  feed_forward->eval();
  auto cache = make_cache(attention->options, 3);
  const auto x = torch::randn({3, 1, 12});
  cache.extend(1);
  attention->forward(x, {.causal = true}, {.cache = &cache});
  cache.extend(1);
  const FlopCounter counter;
  attention->forward(x, {.causal = true}, {.cache = &cache});
  EXPECT_EQ(counter.flops(), 3 * (2 * 12 * (24 + 12) + 4 * 12 * 2));
  const FlopCounter of_feed_forward;
  feed_forward->forward(x);
  EXPECT_EQ(of_feed_forward.flops(), 3 * 2 * 2 * 12 * 48);
}

}  // namespace
}  // namespace attend
