// Each position scheme (rotary, ALiBi, relative bias) must pass these tests when it is added to
// MultiheadAttention as an attention hook.
#include "nn/position_hooks.h"

#include "attend/nn/multihead_attention.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/position_schemes.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

INSTANTIATE_TEST_SUITE_P(All, PositionHook, testing::ValuesIn(position_cases()), name_of_case);

/// Returns an attention module that has three query heads per key-value head, and in which head_dim
/// is greater than embed_dim / num_heads.
MultiheadAttention grouped_attention(const PositionCase& scheme) {
  return MultiheadAttention(
      MultiheadAttentionOptions(8, 6).num_kv_heads(2).head_dim(6).add(scheme.part));
}

/// Returns the bias that the scheme adds to the score of one head at one relative position.
double added_score(const MultiheadAttention& attention, const PositionCase& scheme, int64_t head,
                   int64_t offset) {
  if (scheme.part.name == "alibi") {
    return -slope_of_head(head, attention->options.num_heads()) *
           static_cast<double>(std::abs(offset));
  }
  if (scheme.part.name == "relative_bias") {
    const auto bucket = bucket_of_offset(offset, scheme.relative);
    return attention->named_parameters()["relative_bias.bias.weight"][bucket][head].item<double>();
  }
  return 0.0;
}

bool may_attend(const AttentionArgs& args, int64_t b, int64_t s, int64_t offset) {
  return !(args.causal && offset > 0) &&
         !(args.sliding_window > 0 && std::abs(offset) >= args.sliding_window) &&
         args.key_mask[b][s].item<bool>();
}

/// Reference in plain loops: applies attention with the position scheme to x (B, T, E). The tokens
/// have the positions `positions` (B, T). `frequencies`: those of rotary embeddings.
torch::Tensor expected_output(MultiheadAttention attention, const PositionCase& scheme,
                              const torch::Tensor& x, const torch::Tensor& positions,
                              const torch::Tensor& frequencies, const AttentionArgs& args) {
  const auto projected = attention->qkv(x).unflatten(-1, {-1, 6}).transpose(1, 2);
  auto heads = projected.split_with_sizes({6, 2, 2}, 1);  // (B, heads, T, D)
  if (scheme.part.name == "rotary") {
    for (const size_t i : {0U, 1U}) {
      heads[i] = rotate_in_loops(heads[i], positions, frequencies, scheme.rotary.interleaved);
    }
  }
  auto bias = args.mask.defined() ? args.mask.expand({x.size(0), 6, x.size(1), x.size(1)}).clone()
                                  : torch::zeros({x.size(0), 6, x.size(1), x.size(1)}, x.dtype());
  auto scores = bias.accessor<double, 4>();
  const auto at = positions.accessor<int64_t, 2>();
  for (int64_t b = 0; b < x.size(0); ++b) {
    for (int64_t h = 0; h < 6; ++h) {
      for (int64_t t = 0; t < x.size(1); ++t) {
        for (int64_t s = 0; s < x.size(1); ++s) {
          const int64_t offset = at[b][s] - at[b][t];
          scores[b][h][t][s] += may_attend(args, b, s, offset)
                                    ? added_score(attention, scheme, h, offset)
                                    : -INFINITY;
        }
      }
    }
  }
  const auto key = heads[1].repeat_interleave(3, 1);
  const auto value = heads[2].repeat_interleave(3, 1);
  const auto result = attention_in_loops(heads[0], key, value, {.mask = bias}).output;
  return attention->out(result.transpose(1, 2).flatten(2));
}

TEST_P(PositionHook, MatchesReferenceInRandomCases) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (int round = 0; round < 10; ++round) {
    auto attention = grouped_attention(GetParam());
    attention->to(torch::kDouble);
    const int64_t b = draw(1, 3);
    const int64_t t = draw(1, 6);
    const auto x = torch::randn({b, t, 8}, torch::kDouble);
    AttentionArgs args{.key_mask = torch::rand({b, t}) > 0.3, .causal = draw(0, 1) == 1};
    if (draw(0, 1) == 1) args.sliding_window = draw(1, 4);
    if (draw(0, 1) == 1) args.mask = torch::randn({b, 1, t, t}, torch::kDouble);
    auto positions = torch::arange(t).expand({b, t}).contiguous();
    if (draw(0, 1) == 1) args.positions = positions = torch::randint(40, {b, t}, torch::kLong);
    const auto frequencies =
        torch::tensor(rotary_frequencies(6, GetParam().rotary), torch::kDouble);
    const auto leaves = leaves_of(*attention, {x, frequencies, args.mask});
    EXPECT_TRUE(within_rounding(attention->forward(x, args).output, leaves, [&] {
      return expected_output(attention, GetParam(), x, positions, frequencies, args);
    }));
  }
}

TEST_P(PositionHook, GradientsEqualFiniteDifferences) {
  auto attention = grouped_attention(GetParam());
  attention->to(torch::kDouble);
  const auto x = torch::randn({2, 3, 8}, torch::kDouble).requires_grad_();
  const AttentionArgs args{.key_mask = torch::tensor({{true, true, true}, {false, true, true}}),
                           .positions = torch::tensor({{0, 1, 2}, {4, 6, 9}}),
                           .causal = true};
  auto leaves = attention->parameters();
  leaves.push_back(x);
  EXPECT_TRUE(gradients_match([&] { return attention->forward(x, args).output; }, leaves));
}

TEST_P(PositionHook, FullyMaskedRowGivesZerosAndZeroGradients) {
  auto attention = MultiheadAttention(
      MultiheadAttentionOptions(8, 2).head_dim(4).bias(false).add(GetParam().part));
  const auto x = torch::randn({2, 3, 8}).requires_grad_();
  const auto valid = torch::tensor({{false, false, false}, {true, true, true}});
  const auto y = attention->forward(x, {.key_mask = valid}).output;
  EXPECT_TRUE(close(y[0], torch::zeros({3, 8}), 0.0));
  EXPECT_GT(y[1].abs().min().item<double>(), 0.0);
  y.sum().backward();
  EXPECT_TRUE(close(x.grad()[0], torch::zeros({3, 8}), 0.0));
  for (const auto& parameter : attention->parameters()) {
    EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  }
}

TEST_P(PositionHook, RespectsABoolMask) {
  auto attention = grouped_attention(GetParam());
  const auto x = torch::randn({2, 4, 8});
  const auto mask = torch::ones({4, 4}, torch::kBool).tril();
  const auto masked = attention->forward(x, {.mask = mask}).output;
  EXPECT_TRUE(close(masked, attention->forward(x, {.causal = true}).output, 1e-6));
  EXPECT_THAT([&] { attention->forward(x, {.mask = mask.to(torch::kLong)}); },
              throws<c10::TypeError>(
                  "mask must be bool (true = may attend) or float (added to the scores), "
                  "found Long"));
}

/// Minimal KV cache: stores keys and values for later calls and sets the positions.
struct EarlierKeys : AttentionHook {
  void after_projection(AttentionContext& context) override {
    context.args.positions = positions_like(context.query, -2) + (key.defined() ? key.size(-2) : 0);
  }
  void before_attention(AttentionContext& context) override {
    if (key.defined()) {
      context.key = torch::cat({key, context.key}, -2);
      context.value = torch::cat({value, context.value}, -2);
    }
    key = context.key;
    value = context.value;
    context.args.key_positions = positions_like(context.key, -2);
  }
  torch::Tensor key;
  torch::Tensor value;
};

TEST_P(PositionHook, SequenceInPiecesEqualsTheWholeSequence) {
  auto attention = grouped_attention(GetParam());
  const auto x = torch::randn({2, 6, 8});
  EarlierKeys cache;
  std::vector<torch::Tensor> pieces;
  for (const auto& piece : x.split_with_sizes({3, 1, 2}, 1)) {
    pieces.push_back(attention->forward(piece, {.causal = true}, {.hook = &cache}).output);
  }
  const auto whole = attention->forward(x, {.causal = true}).output;
  EXPECT_TRUE(close(torch::cat(pieces, 1), whole, 1e-6));
}

TEST_P(PositionHook, CrossAttentionThrows) {
  auto attention = grouped_attention(GetParam());
  const auto x = torch::zeros({2, 3, 8});
  EXPECT_THAT(
      [&] { attention->cross(x, x, x); },
      throws<c10::ValueError>("requires self-attention: the two sequences of cross-attention "
                              "have no common positions"));
}

}  // namespace
}  // namespace attend
