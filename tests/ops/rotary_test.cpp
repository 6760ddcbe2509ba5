// apply_rotary and rotary_tables.
#include "attend/ops/rotary.h"

#include "attend/ops/positions.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/position_schemes.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

TEST(ApplyRotary, RotatesPairsByPositionTimesFrequency) {
  const auto x = torch::tensor({{1.0, 0.0}, {1.0, 0.0}, {0.0, 2.0}});
  const auto expected =
      torch::tensor({{1.0, 0.0}, {0.5403023, 0.8414710}, {-1.8185949, -0.8322937}});
  EXPECT_TRUE(close(apply_rotary(x, torch::arange(3)), expected, 1e-6));
}

TEST(ApplyRotary, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (int round = 0; round < 40; ++round) {
    const int64_t b = draw(1, 3);
    const int64_t t = draw(1, 5);
    const int64_t head_dim = draw(2, 9);
    RotaryOptions options{.rotary_dim = 2 * draw(1, head_dim / 2), .interleaved = draw(0, 1) == 1};
    const auto x = torch::randn({b, draw(1, 3), t, head_dim}, torch::kDouble);
    const auto rows = torch::randint(-50, 50, {b, t}, torch::kLong);
    const auto frequencies = torch::tensor(rotary_frequencies(head_dim, options), torch::kDouble);
    const Tensors found{apply_rotary(x, rows, options), apply_rotary(x[0], rows[0], options),
                        apply_rotary(x[0], rows.narrow(0, 0, 1), options),
                        apply_rotary(x.select(1, 0), rows, options),
                        apply_rotary(x, rows[0], options)};
    EXPECT_TRUE(within_rounding(found, {x, frequencies}, [&]() -> Tensors {
      const auto y = rotate_in_loops(x, rows, frequencies, options.interleaved);
      const auto row = rotate_in_loops(x, rows[0].expand({b, t}), frequencies, options.interleaved);
      return {y, y[0], y[0], y.select(1, 0), row};
    }));
  }
}

TEST(ApplyRotary, PositionZeroHasNoEffect) {
  const auto x = torch::randn({2, 3, 1, 8});
  for (const bool interleaved : {false, true}) {
    EXPECT_TRUE(torch::equal(
        apply_rotary(x, torch::zeros({1}, torch::kLong), {.interleaved = interleaved}), x));
  }
}

TEST(ApplyRotary, DotProductsDependOnRelativePositionOnly) {
  const auto q = torch::randn({4, 8}, torch::kDouble);
  const auto k = torch::randn({4, 8}, torch::kDouble);
  const auto positions = torch::tensor({3, 0, 7, 12});
  const auto products = [&](int64_t shift, const RotaryOptions& options) {
    return apply_rotary(q, positions + shift, options)
        .mm(apply_rotary(k, positions + shift, options).t());
  };
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.rotary_dim = 6, .interleaved = interleaved};
    EXPECT_TRUE(close(products(1000, options), products(0, options), 1e-10));
    EXPECT_FALSE(close(q.mm(k.t()), products(0, options), 1e-3));
  }
}

TEST(ApplyRotary, PreservesNormUpToYarnAttentionScaling) {
  const auto x = torch::randn({5, 8}, torch::kDouble);
  const auto lengths = x.norm(2, -1);
  const auto positions = torch::arange(5);
  EXPECT_TRUE(close(apply_rotary(x, positions).norm(2, -1), lengths, 1e-12));
  const RotaryOptions yarn{.scaling = RotaryScaling::yarn,
                           .factor = 2.0,
                           .original_max_seq_len = 64,
                           .attention_factor = 1.5};
  EXPECT_TRUE(close(apply_rotary(x, positions, yarn).norm(2, -1), lengths * 1.5, 1e-12));
}

TEST(ApplyRotary, ComputesAnglesInFloat32OrFloat64) {
  const auto x = torch::randn({1, 1, 3, 8});
  const auto frequencies = torch::tensor(rotary_frequencies(8), torch::kDouble);
  const auto large_positions = torch::tensor({{4001, 4002, 4003}});
  const auto expected = rotate_in_loops(x, large_positions, frequencies, false);
  for (const auto& [dtype, tolerance] :
       {std::pair{torch::kBFloat16, 0.05}, std::pair{torch::kHalf, 0.01},
        std::pair{torch::kFloat, 2e-3}, std::pair{torch::kDouble, 1e-6}}) {
    const auto found = apply_rotary(x.to(dtype), large_positions);
    EXPECT_EQ(found.scalar_type(), dtype);
    EXPECT_TRUE(close(found, expected, tolerance)) << dtype;
  }
  const auto exact = x.to(torch::kDouble);
  const auto very_large_positions = torch::tensor({{1000001, 1000002, 1000003}});
  EXPECT_TRUE(close(apply_rotary(exact, very_large_positions),
                    rotate_in_loops(exact, very_large_positions, frequencies, false), 1e-9));
}

TEST(ApplyRotary, SupportsAllPositionDtypes) {
  const auto x = torch::randn({3, 4});
  const auto expected = apply_rotary(x, torch::arange(3));
  for (const auto dtype : {torch::kInt, torch::kByte, torch::kHalf, torch::kDouble}) {
    EXPECT_TRUE(close(apply_rotary(x, torch::arange(3).to(dtype)), expected, 0.0)) << dtype;
  }
}

TEST(ApplyRotary, SupportsStridedExpandedAndEmptyInputs) {
  const auto x = torch::randn({2, 5, 3, 8});
  const auto positions = torch::arange(5);
  const RotaryOptions options{.rotary_dim = 4, .interleaved = true};
  EXPECT_TRUE(close(apply_rotary(x.transpose(1, 2), positions, options),
                    apply_rotary(x.transpose(1, 2).contiguous(), positions, options), 0.0));
  const auto one = torch::randn({1, 1, 5, 8});
  EXPECT_TRUE(close(apply_rotary(one.expand({2, 3, 5, 8}), positions, options),
                    apply_rotary(one, positions, options).expand({2, 3, 5, 8}), 0.0));
  for (const bool interleaved : {false, true}) {
    const RotaryOptions whole{.interleaved = interleaved};
    EXPECT_EQ(apply_rotary(torch::zeros({0, 3, 5, 8}), positions, whole).sizes(),
              at::IntArrayRef({0, 3, 5, 8}));
    EXPECT_EQ(apply_rotary(torch::zeros({2, 3, 0, 8}), torch::arange(0), whole).sizes(),
              at::IntArrayRef({2, 3, 0, 8}));
  }
}

TEST(ApplyRotary, GradientMatchesFiniteDifferences) {
  const auto x = torch::randn({2, 3, 6}, torch::kDouble).requires_grad_();
  const auto positions = torch::tensor({{0, 1, 5}, {7, 2, 3}});
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.rotary_dim = 4, .interleaved = interleaved};
    EXPECT_TRUE(gradients_match([&] { return apply_rotary(x, positions, options); }, {x}));
  }
}

TEST(ApplyRotary, TraceGeneralizesToOtherSizes) {
  for (const bool interleaved : {false, true}) {
    const RotaryOptions options{.rotary_dim = 4, .interleaved = interleaved};
    const auto run = [&](const Tensors& x) {
      return apply_rotary(apply_rotary(x[0], positions_like(x[0], -2), options), x[1], options);
    };
    const auto traced = trace(run, {torch::randn({2, 3, 4, 6}), torch::randint(9, {2, 4})});
    for (const Tensors& other : {Tensors{torch::randn({1, 2, 7, 6}), torch::randint(9, {1, 7})},
                                 Tensors{torch::randn({3, 1, 1, 6}), torch::randint(9, {3, 1})}}) {
      EXPECT_TRUE(close(traced(other), run(other), 1e-6));
    }
  }
}

TEST(ApplyRotaryErrors, WrongShapesAndDtypesThrow) {
  const auto x = torch::zeros({2, 3, 5, 8});
  EXPECT_THAT([&] { apply_rotary(x, torch::arange(4)); },
              throws<c10::ValueError>("positions [4] must be (T) or (B, T) for the input "
                                      "(B, ..., T, D) = [2, 3, 5, 8]"));
  EXPECT_THAT(
      [&] {
        apply_rotary(x, torch::zeros({3, 5}));
      },
      throws<c10::ValueError>("positions [3, 5] must be"));
  EXPECT_THAT([&] { apply_rotary(x, torch::tensor(1)); },
              throws<c10::ValueError>("positions [] must be"));
  EXPECT_THAT([&] { apply_rotary(torch::zeros({8}), torch::arange(1)); },
              throws<c10::ValueError>("apply_rotary expects (..., T, D), found [8]"));
  EXPECT_THAT([&] { apply_rotary(x.to(torch::kLong), torch::arange(5)); },
              throws<c10::TypeError>("apply_rotary expects a float dtype, found Long"));
  const auto tables = rotary_tables(torch::arange(5), torch::ones({5}));
  EXPECT_THAT([&] { apply_rotary(x, tables); },
              throws<c10::ValueError>("with D of at least 10, found [2, 3, 5, 8]"));
}

}  // namespace
}  // namespace attend
