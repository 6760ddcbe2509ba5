#include "attend/ops/positions.h"

#include "support/close.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

torch::Tensor arange(int64_t n) {
  return torch::arange(n, torch::kLong);
}

TEST(PositionsLike, IsArangeOfTheDimension) {
  const auto x = torch::randn({2, 3, 4});
  for (const int64_t dim : {0, 1, 2, -1, -2, -3}) {
    const auto index = positions_like(x, dim);
    EXPECT_EQ(index.scalar_type(), torch::kLong);
    EXPECT_TRUE(torch::equal(index, arange(x.size(dim)))) << "dim " << dim;
  }
}

TEST(PositionsLike, IgnoresElementValues) {
  const auto x = torch::full({2, 3}, NAN);
  EXPECT_TRUE(torch::equal(positions_like(x, 1), arange(3)));
  EXPECT_TRUE(torch::equal(positions_like(torch::full({3}, NAN), 0), arange(3)));
}

TEST(PositionsLike, WorksIfAnotherDimensionIsEmpty) {
  EXPECT_TRUE(torch::equal(positions_like(torch::zeros({0, 3}), 1), arange(3)));
  EXPECT_TRUE(torch::equal(positions_like(torch::zeros({3, 0, 0}), 0), arange(3)));
}

TEST(PositionsLike, IsEmptyForAnEmptyDimension) {
  EXPECT_TRUE(torch::equal(positions_like(torch::zeros({2, 0}), 1), arange(0)));
  EXPECT_TRUE(torch::equal(positions_like(torch::zeros({0}), 0), arange(0)));
}

TEST(PositionsLike, SupportsAllDtypes) {
  for (const auto dtype : {torch::kBool, torch::kInt, torch::kHalf, torch::kBFloat16}) {
    EXPECT_TRUE(torch::equal(positions_like(torch::zeros({300, 2}, dtype), 0), arange(300)));
  }
}

TEST(PositionsLike, TraceGeneralizesToOtherSizes) {
  const auto run = [](const Tensors& x) { return positions_like(x[0], 1); };
  const auto traced = trace(run, {torch::zeros({2, 3, 4})});
  EXPECT_TRUE(torch::equal(traced({torch::zeros({5, 7, 1})}), arange(7)));
  EXPECT_TRUE(torch::equal(traced({torch::zeros({0, 2, 1})}), arange(2)));
}

// Vaswani et al. 2017, section 3.5.
double sinusoid(int64_t position, int64_t channel, int64_t embed_dim) {
  const auto pair = static_cast<double>(channel / 2);
  const double angle =
      static_cast<double>(position) / std::pow(10000.0, 2 * pair / static_cast<double>(embed_dim));
  return channel % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

TEST(SinusoidalPositionsFunction, MatchFormula) {
  for (const int64_t embed_dim : {1, 2, 5, 8}) {
    auto expected = torch::empty({50, embed_dim}, torch::kDouble);
    for (int64_t p = 0; p < 50; ++p) {
      for (int64_t c = 0; c < embed_dim; ++c) expected[p][c] = sinusoid(p, c, embed_dim);
    }
    EXPECT_TRUE(close(sinusoidal_positions(arange(50), embed_dim), expected, 1e-5));
  }
}

TEST(SinusoidalPositionsFunction, AppendOneDimensionToPositionsOfAnyShape) {
  const auto vectors = sinusoidal_positions(arange(6).view({2, 3}), 4);
  EXPECT_EQ(vectors.sizes(), at::IntArrayRef({2, 3, 4}));
  EXPECT_TRUE(close(vectors.view({6, 4}), sinusoidal_positions(arange(6), 4), 0.0));
  EXPECT_EQ(sinusoidal_positions(torch::tensor(2), 4).sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(sinusoidal_positions(arange(0), 4).sizes(), at::IntArrayRef({0, 4}));
}

TEST(SinusoidalPositionsFunction, AreFloat32ForAllPositionDtypes) {
  const auto expected = sinusoidal_positions(arange(5), 4);
  for (const auto dtype :
       {torch::kInt, torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kByte}) {
    const auto vectors = sinusoidal_positions(arange(5).to(dtype), 4);
    EXPECT_EQ(vectors.scalar_type(), torch::kFloat) << dtype;
    EXPECT_TRUE(close(vectors, expected, 1e-6)) << dtype;
  }
}

TEST(SinusoidalPositionsFunction, NonPositiveEmbedDimThrows) {
  EXPECT_THAT([] { sinusoidal_positions(arange(3), 0); },
              throws<c10::ValueError>("embed_dim (0) must be positive"));
}

}  // namespace
}  // namespace attend
