#include "attend/nn/token_embedding.h"

#include "attend/nn/norms.h"
#include "attend/ops/positions.h"
#include "support/close.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

using TokenOptions = TokenEmbeddingOptions;

struct TokenEmbeddingTest : FixedSeed, testing::TestWithParam<PositionEmbedding> {
  static TokenOptions options() { return TokenOptions(10, 6, 5).positions(GetParam()); }
  static torch::Tensor draw_tokens(at::IntArrayRef sizes) {
    return torch::randint(0, 10, sizes, torch::kLong);
  }

  TokenEmbedding embedding{options()};
  torch::Tensor tokens = draw_tokens({3, 4});
};

INSTANTIATE_TEST_SUITE_P(, TokenEmbeddingTest,
                         testing::Values(PositionEmbedding::none, PositionEmbedding::learned,
                                         PositionEmbedding::sinusoidal),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(TokenEmbeddingTest, AddsTokenAndPositionEmbeddings) {
  const auto y = embedding(tokens);
  ASSERT_EQ(y.sizes(), at::IntArrayRef({3, 4, 6}));
  auto position = torch::zeros({4, 6});
  if (GetParam() == PositionEmbedding::learned) {
    position = embedding->position.get<torch::nn::Embedding>()->weight.narrow(0, 0, 4);
  } else if (GetParam() == PositionEmbedding::sinusoidal) {
    position = sinusoidal_positions(torch::arange(4), 6);
  }
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t t = 0; t < 4; ++t) {
      const auto token = embedding->token->weight[tokens[b][t].item<int64_t>()];
      EXPECT_TRUE(close(y[b][t], token + position[t], 1e-6));
    }
  }
}

TEST_P(TokenEmbeddingTest, UnbatchedEqualsBatched) {
  EXPECT_TRUE(close(embedding(tokens[1]), embedding(tokens)[1], 0.0));
}

TEST_P(TokenEmbeddingTest, SupportsEmptyBatchAndEmptySequence) {
  EXPECT_EQ(embedding(draw_tokens({0, 4})).sizes(), at::IntArrayRef({0, 4, 6}));
  EXPECT_EQ(embedding(draw_tokens({3, 0})).sizes(), at::IntArrayRef({3, 0, 6}));
  EXPECT_EQ(embedding(draw_tokens({0})).sizes(), at::IntArrayRef({0, 6}));
}

TEST_P(TokenEmbeddingTest, SupportsInt32Tokens) {
  EXPECT_TRUE(close(embedding(tokens.to(torch::kInt)), embedding(tokens), 0.0));
}

TEST_P(TokenEmbeddingTest, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(embedding, TokenEmbedding(options()),
                                  [&](TokenEmbedding module) { return module(tokens); });
}

// Detects a clone whose forward uses the positions of the original.
TEST_P(TokenEmbeddingTest, CloneHasItsOwnPositions) {
  const auto copy = std::dynamic_pointer_cast<TokenEmbeddingImpl>(embedding->clone());
  const auto before = embedding(tokens);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : embedding->parameters()) parameter.zero_();
  EXPECT_TRUE(close(copy->forward(tokens), before, 0.0));
}

TEST_P(TokenEmbeddingTest, SupportsFloat64AndBfloat16) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16}) {
    embedding->to(dtype);
    EXPECT_EQ(embedding(tokens).scalar_type(), dtype);
  }
}

TEST_P(TokenEmbeddingTest, TraceGeneralizesToOtherSizes) {
  freeze(*embedding);
  const auto run = [&](const Tensors& x) { return embedding(x[0]); };
  const auto traced = trace(run, {draw_tokens({2, 3})});
  for (const auto& other : {draw_tokens({1, 5}), draw_tokens({3, 1})}) {
    EXPECT_TRUE(close(traced({other}), run({other}), 0.0)) << other.sizes();
  }
}

TEST_P(TokenEmbeddingTest, DropoutIsActiveInTrainingOnly) {
  TokenEmbedding dropping(options().dropout(0.5));
  EXPECT_FALSE(torch::allclose(dropping(tokens), dropping(tokens)));
  dropping->eval();
  EXPECT_TRUE(close(dropping(tokens), dropping(tokens), 0.0));
}

TEST_P(TokenEmbeddingTest, PrettyPrintShowsOptions) {
  const auto start =
      "attend::TokenEmbedding(vocab_size=10, embed_dim=6, max_seq_len=5, positions=" +
      std::string(to_string(GetParam())) + ", type_vocab_size=0, embedding_scale=1, dropout=0)";
  EXPECT_THAT(printed(*embedding), testing::StartsWith(start));
}

TEST(TokenEmbedding, RoundsTheScaleToTheDtypeOfTheEmbedding) {
  TokenEmbedding embedding(TokenEmbeddingOptions(5, 64, 8)
                               .positions(PositionEmbedding::none)
                               .embedding_scale(std::sqrt(152.0)));
  embedding->to(torch::kBFloat16);
  const auto tokens = torch::arange(5);
  const auto factor = torch::tensor(std::sqrt(152.0), torch::kBFloat16);
  EXPECT_TRUE(embedding(tokens).equal(embedding->token->weight * factor));
}

TEST(TokenEmbedding, StateDictHasDocumentedKeys) {
  const auto names = [](PositionEmbedding positions) {
    return state_names(*TokenEmbedding(TokenOptions(10, 6, 5).positions(positions)));
  };
  EXPECT_THAT(names(PositionEmbedding::learned),
              testing::ElementsAre("token.weight", "position.weight"));
  EXPECT_THAT(names(PositionEmbedding::sinusoidal), testing::ElementsAre("token.weight"));
  EXPECT_THAT(names(PositionEmbedding::none), testing::ElementsAre("token.weight"));
}

TEST(TokenEmbeddingErrors, TokenOrPositionOutOfRangeThrows) {
  TokenEmbedding embedding(TokenOptions(10, 6, 5));
  const auto tokens = torch::tensor({{1, 2, 9}});
  EXPECT_THAT([&] { embedding(tokens + 1); },
              throws<c10::ValueError>("token (10) must be in [0, 10)"));
  EXPECT_THAT([&] { embedding(tokens - 2); },
              throws<c10::ValueError>("token (-1) must be in [0, 10)"));
  EXPECT_THAT([&] { embedding(tokens.unsqueeze(1)); }, throws<c10::ValueError>("found [1, 1, 3]"));
  EXPECT_THAT(
      [&] {
        embedding->forward(tokens, torch::tensor({3, 4, 5}));
      },
      throws<c10::ValueError>("position (5) must be in [0, 5)"));
  EXPECT_THAT([&] { embedding->forward(tokens, torch::tensor({3})); },
              throws<c10::ValueError>("positions [1] must be (T) or have the shape"));
  EXPECT_THAT([&] { embedding->forward(tokens, torch::ones({3})); },
              throws<c10::TypeError>("positions must be integers, found Float"));
}

TEST(TokenEmbeddingErrors, InvalidShapesDtypesAndOptionsThrow) {
  TokenEmbedding embedding(TokenOptions(10, 6, 5));
  EXPECT_THAT(
      [&] {
        embedding(torch::zeros({2, 6}, torch::kLong));
      },
      throws<c10::ValueError>(
          "tokens must be (B, T) or (T) with T at most max_seq_len (5), found [2, 6]"));
  EXPECT_THAT([&] { embedding(torch::zeros({}, torch::kLong)); },
              throws<c10::ValueError>("found []"));
  EXPECT_THAT(
      [&] {
        embedding(torch::zeros({2, 3}));
      },
      throws<c10::TypeError>("tokens must be int64 or int32, found Float"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(0, 6, 5)); },
              throws<c10::ValueError>("vocab_size (0) must be positive"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(10, 0, 5)); },
              throws<c10::ValueError>("embed_dim (0) must be positive"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(10, 6, 0)); },
              throws<c10::ValueError>("max_seq_len (0) must be positive"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(10, 6, 5).dropout(2)); },
              throws<c10::ValueError>("dropout (2) must be in [0, 1)"));
}

TEST(TokenEmbedding, TypesScaleAndNormAreAppliedInOrder) {
  const torch::NoGradGuard no_grad;
  TokenEmbedding embedding(
      TokenOptions(10, 6, 5).type_vocab_size(3).embedding_scale(2.5).embedding_norm(rms_norm()));
  EXPECT_THAT(state_names(*embedding), testing::ElementsAre("token.weight", "position.weight",
                                                            "token_type.weight", "norm.weight"));
  const auto tokens = torch::randint(0, 10, {2, 4}, torch::kLong);
  const auto types = torch::randint(0, 3, {2, 4}, torch::kLong);
  const auto position = embedding->position.get<torch::nn::Embedding>()->weight.slice(0, 0, 4);
  const auto sum_with = [&](const torch::Tensor& token_types) {
    return embedding->token(tokens) * 2.5 + position + embedding->token_type(token_types);
  };
  EXPECT_TRUE(
      close(embedding->forward(tokens, {}, types), embedding->norm.forward(sum_with(types)), 1e-6));
  EXPECT_TRUE(
      close(embedding(tokens), embedding->norm.forward(sum_with(torch::zeros_like(tokens))), 1e-6));
}

TEST(TokenEmbedding, CloneAndSaveLoadRoundTripWithAllOptions) {
  const auto options =
      TokenOptions(10, 6, 5).type_vocab_size(3).embedding_scale(2.5).embedding_norm(layer_norm());
  const auto tokens = torch::randint(0, 10, {2, 4}, torch::kLong);
  const auto types = torch::randint(0, 3, {2, 4}, torch::kLong);
  expect_clone_and_save_load_work(
      TokenEmbedding(options), TokenEmbedding(options),
      [&](TokenEmbedding module) { return module->forward(tokens, {}, types); });
}

TEST(TokenEmbeddingErrors, InvalidTokenTypesThrow) {
  const auto tokens = torch::zeros({2, 4}, torch::kLong);
  TokenEmbedding embedding(TokenOptions(10, 6, 5).type_vocab_size(3));
  TokenEmbedding without_types(TokenOptions(10, 6, 5));
  const auto forward_call = [&](TokenEmbedding& module, const torch::Tensor& types) {
    return [&, types] { module->forward(tokens, {}, types); };
  };
  EXPECT_THAT(forward_call(without_types, tokens),
              throws<c10::ValueError>("token_types are given, but type_vocab_size is 0"));
  EXPECT_THAT(forward_call(embedding, tokens + 3),
              throws<c10::ValueError>("token type (3) must be in [0, 3)"));
  EXPECT_THAT(forward_call(embedding, tokens[0]),
              throws<c10::ValueError>("token_types [4] must have the shape of tokens [2, 4]"));
  EXPECT_THAT(forward_call(embedding, torch::zeros({2, 4})),
              throws<c10::TypeError>("token_types must be int64 or int32, found Float"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(10, 6, 5).type_vocab_size(-1)); },
              throws<c10::ValueError>("type_vocab_size (-1) must not be negative"));
  EXPECT_THAT([] { TokenEmbedding(TokenOptions(10, 6, 5).embedding_scale(NAN)); },
              throws<c10::ValueError>("embedding_scale (nan) must be finite"));
}

}  // namespace
}  // namespace attend
