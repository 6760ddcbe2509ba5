// LanguageModel as a module: state dict, initialization, serialization, errors.
#include "attend/models/language_model.h"
#include "support/modules.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

LanguageModelConfig one_layer() {
  return {.vocab_size = 11,
          .max_seq_len = 6,
          .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}};
}

std::vector<std::string> block_names(const std::string& prefix) {
  std::vector<std::string> names;
  for (const char* name :
       {"attention.qkv.weight", "attention.qkv.bias", "attention.out.weight", "attention.out.bias",
        "norm1.weight", "norm1.bias", "feed_forward.up.weight", "feed_forward.up.bias",
        "feed_forward.down.weight", "feed_forward.down.bias", "norm2.weight", "norm2.bias"}) {
    names.push_back(prefix + name);
  }
  return names;
}

std::vector<std::string> join(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// If a key changes, files of saved models can no longer be loaded.
TEST(LanguageModelState, KeysWithTiedEmbeddings) {
  auto config = one_layer();
  config.stack.num_layers = 2;
  const auto expected = join({{"embedding.token.weight", "embedding.position.weight"},
                              block_names("decoder.blocks.0."),
                              block_names("decoder.blocks.1."),
                              {"decoder.norm.weight", "decoder.norm.bias"}});
  EXPECT_EQ(state_names(*LanguageModel(config)), expected);
}

TEST(LanguageModelState, KeysWithUntiedEmbeddingsIncludeTheHead) {
  auto config = one_layer();
  config.tie_embeddings = false;
  const auto expected = join({{"embedding.token.weight", "embedding.position.weight"},
                              block_names("decoder.blocks.0."),
                              {"decoder.norm.weight", "decoder.norm.bias", "head.weight"}});
  EXPECT_EQ(state_names(*LanguageModel(config)), expected);
}

TEST(LanguageModelState, KeysWithoutLayersBiasAndLearnedPositions) {
  auto config = one_layer();
  config.stack.positions = PositionScheme::sinusoidal;
  config.stack.num_layers = 0;
  EXPECT_THAT(
      state_names(*LanguageModel(config)),
      testing::ElementsAre("embedding.token.weight", "decoder.norm.weight", "decoder.norm.bias"));
  config.stack.num_layers = 1;
  config.stack.bias = false;
  EXPECT_THAT(
      state_names(*LanguageModel(config)),
      testing::ElementsAre("embedding.token.weight", "decoder.blocks.0.attention.qkv.weight",
                           "decoder.blocks.0.attention.out.weight", "decoder.blocks.0.norm1.weight",
                           "decoder.blocks.0.feed_forward.up.weight",
                           "decoder.blocks.0.feed_forward.down.weight",
                           "decoder.blocks.0.norm2.weight", "decoder.norm.weight"));
}

TEST(LanguageModelState, InitializationMatchesGpt2) {
  torch::manual_seed(1);
  LanguageModel model(
      LanguageModelConfig{.vocab_size = 200,
                          .max_seq_len = 128,
                          .tie_embeddings = false,
                          .stack = {.num_layers = 3, .num_heads = 4, .embed_dim = 64}});
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    const auto& value = item.value();
    if (name.ends_with("bias")) {
      EXPECT_TRUE(close(value, torch::zeros_like(value), 0.0)) << name;
    } else if (value.dim() == 1) {
      EXPECT_TRUE(close(value, torch::ones_like(value), 0.0)) << name;  // weight of a LayerNorm
    } else {
      const bool ends_branch = name.ends_with("out.weight") || name.ends_with("down.weight");
      const double expected = ends_branch ? 0.02 / std::sqrt(2 * 3.0) : 0.02;
      // The standard deviation s of n samples has the standard error s / sqrt(2n).
      const double error = expected / std::sqrt(2.0 * static_cast<double>(value.numel()));
      EXPECT_NEAR(value.std().item<double>(), expected, 5 * error) << name;
      EXPECT_NEAR(value.mean().item<double>(), 0.0, 7 * error) << name;
    }
  }
}

TEST(LanguageModelState, TiedHeadAddsNoParameters) {
  auto config = one_layer();
  const auto num_tied = count_parameters(*LanguageModel(config));
  config.tie_embeddings = false;
  EXPECT_EQ(count_parameters(*LanguageModel(config)), num_tied + 11 * 8);
}

TEST(LanguageModelState, CloneAndSaveLoadRoundTrip) {
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  for (const bool tie_embeddings : {true, false}) {
    auto config = one_layer();
    config.tie_embeddings = tie_embeddings;
    expect_clone_and_save_load_work(LanguageModel(config), LanguageModel(config),
                                    [&](LanguageModel model) { return model(tokens); });
  }
}

TEST(LanguageModelState, SupportsAllFloatDtypes) {
  const auto tokens = torch::randint(0, 11, {2, 5}, torch::kLong);
  for (const auto positions : {PositionScheme::learned, PositionScheme::sinusoidal}) {
    auto config = one_layer();
    config.stack.positions = positions;
    LanguageModel model(config);
    for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
      model->to(dtype);
      const auto logits = model(tokens);
      EXPECT_EQ(logits.scalar_type(), dtype);
      EXPECT_TRUE(torch::isfinite(logits).all().item<bool>());
    }
  }
}

TEST(LanguageModelState, PrettyPrintShowsConfigAndSubmodules) {
  const auto text = printed(*LanguageModel(one_layer()));
  EXPECT_THAT(text, testing::StartsWith(
                        "attend::LanguageModel(vocab_size=11, max_seq_len=6, tie_embeddings=true, "
                        "logit_scale=1, final_logit_soft_cap=0)"));
  EXPECT_THAT(text, testing::HasSubstr("(embedding): attend::TokenEmbedding(vocab_size=11"));
  EXPECT_THAT(text, testing::HasSubstr("(0): attend::TransformerBlock(norm_order=pre"));
}

TEST(LanguageModelErrors, TooLongInputThrowsWithMaxSeqLenAndShape) {
  LanguageModel model(one_layer());
  EXPECT_NO_THROW(model(torch::zeros({2, 6}, torch::kLong)));
  EXPECT_THAT(
      [&] {
        model(torch::zeros({2, 7}, torch::kLong));
      },
      throws<c10::ValueError>(
          "tokens must be (B, T) or (T) with T at most max_seq_len (6), found [2, 7]"));
}

void expect_rejected(void (*change)(LanguageModelConfig&), const char* message) {
  auto config = one_layer();
  change(config);
  EXPECT_THAT([&] { LanguageModel{config}; }, throws<c10::ValueError>(message));
}

TEST(LanguageModelErrors, MessagesNameOptionAndValue) {
  using Config = LanguageModelConfig;
  expect_rejected([](Config& c) { c.vocab_size = 0; }, "vocab_size (0) must be positive");
  expect_rejected([](Config& c) { c.stack.embed_dim = -8; }, "embed_dim (-8) must be positive");
  expect_rejected([](Config& c) { c.stack.num_layers = -1; }, "layers (-1) must not be negative");
  expect_rejected([](Config& c) { c.stack.dim_feedforward = -1; },
                  "dim_feedforward (-1) must not be negative");
  expect_rejected([](Config& c) { c.stack.dropout = 1.0; }, "dropout (1) must be in [0, 1)");
  expect_rejected([](Config& c) { c.stack.num_heads = 3; },
                  "embed_dim (8) must be divisible by num_heads (3)");
  expect_rejected([](Config& c) { c.stack.num_heads = 0; }, "heads (0) must be positive");
}

}  // namespace
}  // namespace attend
