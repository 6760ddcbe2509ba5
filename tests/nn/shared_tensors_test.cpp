// Tests of tensors that the layers of a stack share. They are computed once per forward pass.
#include "attend/nn/alibi.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/rotary.h"
#include "attend/nn/sliding_window.h"
#include "attend/nn/smeared_keys.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/masks.h"
#include "support/close.h"
#include "support/live_bytes.h"
#include "support/seed.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace attend {
namespace {

using Counts = std::map<std::string, int>;

/// Traces `function` with `inputs`. Returns how many nodes of each kind the trace has.
Counts traced_nodes(
    const std::vector<torch::Tensor>& inputs,
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& function) {
  const auto run = [&](const torch::jit::Stack& stack) -> torch::jit::Stack {
    std::vector<torch::Tensor> tensors;
    for (const auto& input : stack) tensors.push_back(input.toTensor());
    return {function(tensors)};
  };
  const auto no_name = [](const torch::autograd::Variable&) { return std::string(); };
  const auto state =
      torch::jit::tracer::trace(torch::jit::Stack(inputs.begin(), inputs.end()), run, no_name)
          .first;
  Counts counts;
  for (const auto* node : state->graph->nodes()) ++counts[node->kind().toUnqualString()];
  return counts;
}

/// Returns the counts of the nodes that compute masks, positions, tables and biases. These counts
/// must not depend on the number of layers.
Counts shared_nodes(Counts counts) {
  Counts result;
  for (const char* kind :
       {"cos", "sin", "cumsum", "any", "logical_not", "logical_and", "logical_or", "le", "lt", "eq",
        "abs", "where", "neg", "log", "outer", "ones_like"}) {
    result[kind] = counts[kind];
  }
  return result;
}

struct SharedCase {
  std::string name;
  std::vector<AttentionHookFactory> hooks = {};
  AttentionArgs args = {.causal = true};
  bool padded = false;
  int searches = 0;  ///< expected number of searches for fully masked rows
  int tables = 0;    ///< expected number of cosine tables

  friend std::ostream& operator<<(std::ostream& stream, const SharedCase& self) {
    return stream << self.name;
  }
};

struct StackOfLayers : FixedSeed, testing::TestWithParam<SharedCase> {
  static TransformerEncoder encoder(int64_t num_layers) {
    TransformerBlockOptions block(8, 2);
    block.attention().hooks(GetParam().hooks);
    TransformerEncoder encoder(TransformerEncoderOptions(block, num_layers));
    encoder->eval();
    return encoder;
  }
  static AttentionArgs args(const torch::Tensor& key_mask) {
    auto args = GetParam().args;
    if (GetParam().padded) args.key_mask = key_mask;
    return args;
  }
  static Counts nodes(int64_t num_layers) {
    auto stack = encoder(num_layers);
    for (auto& parameter : stack->parameters()) parameter.requires_grad_(false);
    return traced_nodes({torch::randn({2, 5, 8}), torch::ones({2, 5}, torch::kBool)},
                        [&](const auto& in) { return stack->forward(in[0], args(in[1])); });
  }
};

INSTANTIATE_TEST_SUITE_P(
    , StackOfLayers,
    testing::Values(
        SharedCase{"Causal"}, SharedCase{.name = "Padding", .padded = true, .searches = 1},
        SharedCase{.name = "Rotary", .hooks = {rotary()}, .tables = 1},
        SharedCase{.name = "Alibi", .hooks = {alibi()}},
        SharedCase{.name = "AlibiAndPadding", .hooks = {alibi()}, .padded = true, .searches = 1},
        SharedCase{.name = "SlidingWindow", .hooks = {sliding_window(3)}},
        SharedCase{.name = "SmearedKeys", .hooks = {smeared_keys()}},
        SharedCase{.name = "NotCausal", .args = {}}),
    [](const auto& test) { return test.param.name; });

TEST_P(StackOfLayers, ComputesMasksAndTablesOnce) {
  const auto two = nodes(2), four = nodes(4);
  EXPECT_EQ(shared_nodes(two), shared_nodes(four));
  const auto count = [&](const char* kind) { return four.count(kind) ? four.at(kind) : 0; };
  EXPECT_EQ(count("any"), GetParam().searches);
  EXPECT_EQ(count("cos"), GetParam().tables);
}

TEST_P(StackOfLayers, EqualsItsBlocksCalledSeparately) {
  auto stack = encoder(3);
  const auto x = torch::randn({2, 5, 8});
  const auto key_mask = torch::tensor({{0, 0, 1, 1, 1}, {1, 1, 1, 1, 0}}).to(torch::kBool);
  auto y = x;
  for (const auto& block : *stack->blocks) {
    y = block->as<TransformerBlock>()->forward(y, args(key_mask));
  }
  EXPECT_TRUE(close(stack->forward(x, args(key_mask)), stack->norm.forward(y), 0.0));
}

TEST_P(StackOfLayers, GradientCheckpointingGivesTheSameGradients) {
  auto stack = encoder(3);
  const auto x = torch::randn({2, 5, 8}).requires_grad_();
  const auto key_mask = torch::tensor({{0, 0, 1, 1, 1}, {1, 1, 1, 1, 0}}).to(torch::kBool);
  auto leaves = stack->parameters();
  leaves.push_back(x);
  const auto gradients = [&] {
    const auto y = stack->forward(x, args(key_mask));
    return torch::autograd::grad({y.square().sum()}, leaves);
  };
  const auto expected = gradients();
  stack->options.gradient_checkpointing(true);
  const auto found = gradients();
  for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-6));
}

TEST_P(StackOfLayers, SupportsSeveralThreads) {
  auto stack = encoder(2);
  std::vector<torch::Tensor> inputs, expected;
  for (int64_t i = 0; i < 4; ++i) {
    inputs.push_back(torch::randn({2, 3 + i, 8}));
    expected.push_back(stack->forward(inputs.back(), GetParam().args));
  }
  std::vector<torch::Tensor> found(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { found[i] = stack->forward(inputs[i], GetParam().args); });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-6));
}

TEST(SharedTensors, RelativeBucketsAreSharedButNotTheirEmbeddings) {
  const auto nodes = [](int64_t num_layers) {
    TransformerBlockOptions block(8, 2);
    block.attention().add(relative_bias());
    TransformerEncoder stack(TransformerEncoderOptions(block, num_layers));
    for (auto& parameter : stack->parameters()) parameter.requires_grad_(false);
    return traced_nodes({torch::randn({2, 5, 8})},
                        [&](const auto& in) { return stack->forward(in[0], {.causal = true}); });
  };
  const auto two = nodes(2), four = nodes(4);
  for (const char* kind : {"log", "abs", "cumsum", "any", "le"}) {
    EXPECT_EQ(two.count(kind) ? two.at(kind) : 0, four.count(kind) ? four.at(kind) : 0) << kind;
  }
  EXPECT_EQ(two.at("embedding"), 2);
  EXPECT_EQ(four.at("embedding"), 4);
}

TEST(SharedTensors, SelfAndCrossAttentionOfADecoderDoNotShareTensors) {
  const auto nodes = [](int64_t num_layers) {
    TransformerDecoder stack(TransformerDecoderOptions(DecoderBlockOptions(8, 2), num_layers));
    for (auto& parameter : stack->parameters()) parameter.requires_grad_(false);
    return traced_nodes(
        {torch::randn({2, 5, 8}), torch::randn({2, 5, 8}), torch::ones({2, 5}, torch::kBool)},
        [&](const auto& in) {
          return stack->forward(in[0], in[1], {.causal = true}, {.key_mask = in[2]});
        });
  };
  const auto two = nodes(2), four = nodes(4);
  EXPECT_EQ(shared_nodes(two), shared_nodes(four));
  EXPECT_EQ(four.at("any"), 1);  // for the key mask of the memory
  EXPECT_EQ(four.at("le"), 1);   // for the causal mask
}

/// Hook that replaces the mask in its own layer.
struct OwnMask : torch::nn::Cloneable<OwnMask>, AttentionHook {
  explicit OwnMask(int64_t band) : band(band) {}
  void reset() override {}
  void before_attention(AttentionContext& context) override {
    context.args.mask = key_offsets(context.query, context.key).abs() <= band;
  }
  int64_t band;
};

TEST(SharedTensors, LayersWithOtherOptionsOrMasksDoNotShareTensors) {
  torch::manual_seed(1);
  int64_t made = 0;
  const auto band = [&made](const AttentionDims&) { return std::make_shared<OwnMask>(made++); };
  const auto window = [&made](const AttentionDims&) {
    return std::make_shared<SlidingWindowImpl>(++made);
  };
  const auto theta = [&made](const AttentionDims& dims) {
    return std::make_shared<RotaryImpl>(dims.head_dim,
                                        RotaryOptions{.theta = 10.0 * static_cast<double>(++made)});
  };
  const std::vector<AttentionHookFactory> hooks{
      {"band", band}, {"window", window}, {"theta", theta}};
  for (const auto& hook : hooks) {
    made = 0;
    TransformerBlockOptions block(8, 2);
    block.attention().add(hook);
    TransformerEncoder stack(TransformerEncoderOptions(block, 3));
    const auto x = torch::randn({2, 6, 8});
    auto y = x;
    for (const auto& each : *stack->blocks) {
      y = each->as<TransformerBlock>()->forward(y, {.causal = true});
    }
    EXPECT_TRUE(close(stack->forward(x, {.causal = true}), stack->norm.forward(y), 0.0))
        << hook.name;
  }
}

TEST(SharedTensors, EqualKeysReturnTheSameValue) {
  SharedSlot<int> shared;
  const auto a = torch::ones({2}), b = torch::ones({2});
  int computed = 0;
  const auto get = [&](const SharedKey& key) {
    return shared.get(key, [&] { return ++computed; });
  };
  EXPECT_EQ(get({"x", a, {a}, 1.0}), 1);
  EXPECT_EQ(get({"x", a, {a}, 1.0}), 1);
  EXPECT_EQ(get({"y", a, {a}, 1.0}), 2);
  EXPECT_EQ(get({"x", a, {b}, 1.0}), 3);  // equal values, another tensor
  EXPECT_EQ(get({"x", a, {a}, 2.0}), 4);
  EXPECT_EQ(get({"x", a.to(torch::kDouble), {a}, 1.0}), 5);
  EXPECT_EQ(get({"x", a, {torch::Tensor()}}), 6);
  EXPECT_EQ(get({"x", a, {torch::Tensor()}}), 6);
  for (int i = 0; i < 20; ++i) get({"filler", a, {}, i});
  EXPECT_EQ(get({"x", a, {a}, 1.0}), 27);  // evicted by the other keys, so computed again
}

TEST(SharedTensors, NestedValuesAreLimited) {
  SharedSlot<std::shared_ptr<int64_t>> shared;
  const auto like = torch::ones({});
  std::vector<std::weak_ptr<int64_t>> values;
  const std::function<std::shared_ptr<int64_t>(int64_t)> get = [&](int64_t depth) {
    return shared.get({"x", like, {}, depth}, [&] {
      if (depth > 0) get(depth - 1);
      auto value = std::make_shared<int64_t>(depth);
      values.push_back(value);
      return value;
    });
  };
  get(100);
  ASSERT_EQ(values.size(), 101U);
  const auto released = std::count_if(values.begin(), values.end(),
                                      [](const auto& value) { return value.expired(); });
  EXPECT_GT(released, 50);
}

TEST(SharedTensors, ValuesAreReleasedAfterTheTensorsOfTheirKeys) {
  SharedSlot<std::shared_ptr<int>> shared;
  const auto compute = [] { return std::make_shared<int>(); };
  const auto like = torch::ones({});
  auto mask = torch::ones({2});
  const std::weak_ptr<int> value = shared.get({"x", like, {mask}}, compute);
  shared.get({"x", like, {}}, compute);
  EXPECT_FALSE(value.expired());
  mask.reset();
  shared.get({"y", like, {}}, compute);
  EXPECT_TRUE(value.expired());
}

TEST(SharedTensors, MasksOfFiveWindowsAreComputedOnce) {
  const auto nodes = [](int64_t num_layers) {
    const auto options = TransformerEncoderOptions(TransformerBlockOptions(8, 2), num_layers)
                             .per_layer([](int64_t layer, TransformerBlockOptions& block) {
                               block.attention().add(sliding_window(1 + layer % 5));
                             });
    TransformerEncoder stack(options);
    for (auto& parameter : stack->parameters()) parameter.requires_grad_(false);
    return traced_nodes({torch::randn({2, 9, 8})},
                        [&](const auto& in) { return stack->forward(in[0], {.causal = true}); });
  };
  const auto five = nodes(5), ten = nodes(10);
  EXPECT_EQ(shared_nodes(five), shared_nodes(ten));
  EXPECT_GE(five.at("le"), 5);
}

/// Hook that creates a new mask with the same values in each layer.
struct NewKeyMask : torch::nn::Cloneable<NewKeyMask>, AttentionHook {
  void reset() override {}
  void after_projection(AttentionContext& context) override {
    context.args.key_mask = torch::ones({context.key.size(-2)}, torch::kBool);
  }
};

TEST(SharedTensors, MasksCreatedByAHookAreNotCached) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 256, 8});
  const auto peak = [&](int64_t num_layers) {
    TransformerBlockOptions block(8, 1);
    block.attention().add(
        {"mask", [](const AttentionDims&) { return std::make_shared<NewKeyMask>(); }});
    TransformerEncoder encoder(TransformerEncoderOptions(block, num_layers));
    const LiveBytes live;
    encoder->forward(x, {.causal = true});
    return live.peak();
  };
  constexpr int64_t kMask = 256 * 256;
  EXPECT_LT(peak(12), peak(3) + kMask / 2);
}

TEST(SharedTensors, AreComputedOncePerStepWithAKvCache) {
  const torch::NoGradGuard no_grad;
  TransformerBlockOptions block(8, 2);
  block.attention().add(rotary());
  TransformerEncoder stack(TransformerEncoderOptions(block, 4));
  for (const bool padded : {false, true}) {
    KvCache cache(
        KvCacheOptions().num_layers(4).batch_size(2).num_kv_heads(2).head_dim(4).max_seq_len(8));
    const auto key_mask = torch::tensor({{1, 1, 1}, {1, 1, 0}}).to(torch::kBool);
    cache.extend(3, padded ? key_mask : torch::Tensor());
    Counts calls;
    static thread_local Counts* counting = nullptr;
    counting = &calls;
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          ++(*counting)[function.name()];
          return nullptr;
        }));
    stack->forward(torch::randn({2, 3, 8}), {.causal = true}, {.cache = &cache});
    at::removeCallback(handle);
    EXPECT_EQ(calls["aten::cos"], 1);
    EXPECT_EQ(calls["aten::any"], padded ? 1 : 0);
    EXPECT_EQ(calls["aten::le"], padded ? 1 : 0);
  }
}

/// Hook that replaces the bias of the scores by a parameter (H, 1, 1) times the index of the key.
struct LearnedBiasImpl : torch::nn::Cloneable<LearnedBiasImpl>, AttentionHook {
  LearnedBiasImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::randn({2, 1, 1})); }
  void before_attention(AttentionContext& context) override {
    context.options.bias = weight * positions_like(context.key, -2);  // (H, 1, S)
  }
  torch::Tensor weight;
};

TEST(SharedTensors, AHookThatReplacesASharedBiasGetsItsGradient) {
  TransformerBlockOptions block(8, 2);
  block.attention().add(alibi()).add(
      {"learned_bias", [](const AttentionDims&) { return std::make_shared<LearnedBiasImpl>(); }});
  TransformerEncoder plain(TransformerEncoderOptions(block, 3));
  TransformerEncoder checkpointed(TransformerEncoderOptions(block, 3).gradient_checkpointing(true));
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : plain->named_parameters()) {
      checkpointed->named_parameters()[item.key()].copy_(item.value());
    }
  }
  const auto x = torch::randn({2, 5, 8});
  const AttentionArgs args{.causal = true};
  for (auto* stack : {&plain, &checkpointed}) (*stack)->forward(x, args).square().sum().backward();
  auto h = x;
  for (const auto& child : *plain->blocks) {
    h = child->as<TransformerBlock>()->forward(h, args);
  }
  EXPECT_TRUE(close(plain->norm.forward(h), plain->forward(x, args), 1e-6));
  for (const auto& item : plain->named_parameters()) {
    const auto other = checkpointed->named_parameters()[item.key()];
    ASSERT_TRUE(other.grad().defined()) << item.key();
    EXPECT_TRUE(close(other.grad(), item.value().grad(), 1e-5)) << item.key();
  }
}

}  // namespace
}  // namespace attend
