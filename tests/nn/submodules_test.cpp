// Replaced submodules, custom modules, and empty factories.
#include "attend/nn.h"
#include "support/close.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/nn/modules/dropout.h>

namespace attend {
namespace {

/// A custom feed-forward.
struct DoublingImpl : torch::nn::Cloneable<DoublingImpl> {
  explicit DoublingImpl(int64_t width) : width(width) { reset(); }
  void reset() override { weight = register_parameter("weight", torch::full({width}, 2.0)); }
  torch::Tensor forward(const torch::Tensor& x) { return x * weight; }
  int64_t width;
  torch::Tensor weight;
};
TORCH_MODULE(Doubling);

torch::nn::AnyModule make_doubling(int64_t width) {
  return torch::nn::AnyModule(Doubling(width));
}

struct Submodules : FixedSeed, testing::Test {
  torch::Tensor x = torch::randn({2, 5, 8});
  torch::Tensor memory = torch::randn({2, 3, 8});
};

template <typename Call>
void expect_submodule_error(const char* submodule, const Call& call) {
  EXPECT_THAT(call, throws<c10::ValueError>("is not the module that forward calls"));
  EXPECT_THAT(call, throws<c10::ValueError>(submodule));
}

TEST_F(Submodules, ReplacedWithoutTheMemberThrow) {
  TransformerBlock block(8, 2);
  block->replace_module("attention", MultiheadAttention(8, 2));
  expect_submodule_error("submodule attention of attend::TransformerBlockImpl",
                         [&] { block->eval(); });
  expect_submodule_error("attention", [&] { block->train(); });

  block = TransformerBlock(8, 2);
  block->replace_module("norm2", RMSNorm(8));
  expect_submodule_error("norm2", [&] { block->eval(); });

  block = TransformerBlock(8, 2);
  block->attention->replace_module("qkv", torch::nn::Linear(8, 24));
  expect_submodule_error("qkv", [&] { block->eval(); });

  block = TransformerBlock(8, 2);
  block->feed_forward.get<FeedForward>()->replace_module("up", torch::nn::Linear(8, 32));
  expect_submodule_error("up", [&] { block->eval(); });

  DecoderBlock decoder(8, 2);
  decoder->replace_module("cross_attention", MultiheadAttention(8, 2));
  expect_submodule_error("cross_attention", [&] { decoder->eval(); });

  MultiheadAttention attention(
      MultiheadAttentionOptions(8, 2).add(rotary()).add(qk_norm()).add(output_gate()));
  attention->replace_module("rotary", RotaryImpl(4, {}).clone());
  expect_submodule_error("rotary", [&] { attention->eval(); });

  TransformerEncoder encoder(TransformerEncoderOptions(TransformerBlockOptions(8, 2), 2));
  encoder->blocks->replace_module("1", TransformerBlock(8, 2));
  expect_submodule_error("submodule 1", [&] { encoder->eval(); });
  encoder = TransformerEncoder(TransformerEncoderOptions(TransformerBlockOptions(8, 2), 2));
  encoder->replace_module("norm", LayerNorm(8));
  expect_submodule_error("norm", [&] { encoder->eval(); });

  MixtureOfExperts mixture(MixtureOfExpertsOptions(8, 3));
  mixture->experts->replace_module("2", FeedForward(8));
  expect_submodule_error("submodule 2", [&] { mixture->eval(); });

  TokenEmbedding embedding(TokenEmbeddingOptions(11, 8, 8));
  embedding->replace_module("token", torch::nn::Embedding(11, 8));
  expect_submodule_error("token", [&] { embedding->eval(); });

  SelfAttention single(8);
  single->replace_module("value", torch::nn::Linear(8, 8));
  expect_submodule_error("value", [&] { single->eval(); });
}

/// Replaces a submodule of the last block of `encoder` by a clone with the same mode.
void replace_qkv(TransformerEncoder& encoder) {
  const auto last = encoder->blocks[encoder->blocks->size() - 1];
  auto& attention = last->as<TransformerBlock>()->attention;
  attention->replace_module("qkv", attention->qkv->clone())->train(attention->is_training());
}

TEST_F(Submodules, ReplacedInEvalModeAreFoundByEvalGuard) {
  TransformerEncoder encoder(TransformerEncoderOptions(TransformerBlockOptions(8, 2), 2));
  encoder->eval();
  replace_qkv(encoder);
  expect_submodule_error("qkv", [&] { const EvalGuard eval(encoder); });
}

TEST_F(Submodules, FailedEvalChangesNoMode) {
  TransformerEncoder encoder(TransformerEncoderOptions(TransformerBlockOptions(8, 2), 2));
  replace_qkv(encoder);
  expect_submodule_error("qkv", [&] { encoder->eval(); });
  for (const auto& module : encoder->modules()) EXPECT_TRUE(module->is_training());
}

TEST_F(Submodules, CustomModulesCanUseTheCheck) {
  struct Pair : Cloneable<Pair> {
    Pair() { reset(); }
    void reset() override {
      use("first", &Pair::first, torch::nn::Linear(2, 2));
      use("second", &Pair::second, torch::nn::Linear(nullptr));
    }
    torch::nn::Linear first{nullptr};
    torch::nn::Linear second{nullptr};  // not used
  };
  const auto pair = std::dynamic_pointer_cast<Pair>(Pair().clone());
  EXPECT_THAT(state_names(*pair), testing::UnorderedElementsAre("first.weight", "first.bias"));
  pair->first = pair->replace_module("first", torch::nn::Linear(2, 2));
  EXPECT_NO_THROW(pair->check_submodules());
  pair->replace_module("first", torch::nn::Linear(2, 2));
  expect_submodule_error("submodule first of", [&] { pair->check_submodules(); });
}

TEST_F(Submodules, ReplacedWithTheMemberAreCalled) {
  TransformerBlock block(8, 2);
  TransformerBlock other(8, 2);
  block->attention = block->replace_module("attention", other->attention);
  block->attention->out = block->attention->replace_module("out", torch::nn::Linear(8, 8));
  block->feed_forward = torch::nn::AnyModule(Doubling(8));
  block->replace_module("feed_forward", block->feed_forward.ptr());
  const auto h = x + other->attention->forward(torch::layer_norm(x, {8})).output;
  EXPECT_TRUE(close(block->forward(x), h + 2 * torch::layer_norm(h, {8}), 1e-6));
}

TEST_F(Submodules, MemberThatIsNotRegisteredThrows) {
  TransformerBlock block(8, 2);
  block->feed_forward = torch::nn::AnyModule(Doubling(8));
  expect_submodule_error("feed_forward", [&] { block->eval(); });
}

TEST_F(Submodules, CustomFeedForwardIsUsedAndCloned) {
  TransformerBlock block(TransformerBlockOptions(8, 2).custom_feed_forward(make_doubling));
  const auto h = x + block->attention->forward(torch::layer_norm(x, {8})).output;
  EXPECT_TRUE(close(block->forward(x), h + 2 * torch::layer_norm(h, {8}), 1e-6));
  EXPECT_THAT(state_names(*block), testing::Contains("feed_forward.weight"));
  TransformerBlock fresh(TransformerBlockOptions(8, 2).custom_feed_forward(make_doubling));
  expect_clone_and_save_load_work(block, fresh,
                                  [&](TransformerBlock module) { return module->forward(x); });
}

TEST_F(Submodules, CustomFeedForwardOfADecoderBlockIsUsedAndCloned) {
  const auto options = DecoderBlockOptions(8, 2).custom_feed_forward(make_doubling);
  DecoderBlock block(options);
  EXPECT_THAT(state_names(*block), testing::Contains("feed_forward.weight"));
  DecoderBlock plain(DecoderBlockOptions(8, 2));
  EXPECT_EQ(count_parameters(*plain) - count_parameters(*block),
            count_parameters(*FeedForward(8)) - 8);
  expect_clone_and_save_load_work(block, DecoderBlock(options),
                                  [&](DecoderBlock module) { return module->forward(x, memory); });
}

TEST_F(Submodules, CustomFeedForwardWithExpertsThrows) {
  auto options = TransformerBlockOptions(8, 2).experts(ExpertsOptions(4));
  options.custom_feed_forward(make_doubling);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("custom_feed_forward and experts (4) must not both be set"));
}

TEST_F(Submodules, EmptyFactoriesThrow) {
  const auto empty_module = [](int64_t) { return torch::nn::AnyModule(); };
  TransformerBlockOptions options(8, 2);
  options.residual().norm(nullptr);
  EXPECT_THAT(
      [&] { TransformerBlock{options}; },
      throws<c10::ValueError>("norm must not be an empty factory: set it, e.g. to rms_norm()"));
  EXPECT_THAT([&] { TransformerEncoder(TransformerEncoderOptions(options, 0)); },
              throws<c10::ValueError>("norm must not be an empty factory"));
  options.residual().norm(empty_module);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("norm must return a module, found an empty AnyModule"));
  options.residual().norm(rms_norm()).branch_scale(empty_module);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("branch_scale must return a module"));
  EXPECT_THAT(
      [&] {
        MultiheadAttention(MultiheadAttentionOptions(8, 2).add({"mine", nullptr}));
      },
      throws<c10::ValueError>("hook mine has an empty factory"));
  EXPECT_THAT([&] { QKNorm(4, nullptr); },
              throws<c10::ValueError>("norm of qk_norm must not be an empty factory"));
  EXPECT_THAT(
      [&] { TransformerBlock(TransformerBlockOptions(8, 2).custom_feed_forward(empty_module)); },
      throws<c10::ValueError>("custom_feed_forward must return a module"));
}

}  // namespace
}  // namespace attend
