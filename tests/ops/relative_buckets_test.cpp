#include "attend/ops/relative_buckets.h"

#include "support/position_schemes.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <ATen/ops/_unique.h>
#include <gmock/gmock.h>

namespace attend {
namespace {

std::vector<int64_t> buckets_of(const std::vector<int64_t>& offsets,
                                const RelativeBucketOptions& options = {}) {
  const auto buckets = relative_buckets(torch::tensor(offsets), options);
  return {buckets.data_ptr<int64_t>(), buckets.data_ptr<int64_t>() + buckets.numel()};
}

// The expected values of this test and of the next test come from T5's formula in Hugging Face
// transformers.
TEST(RelativeBuckets, MatchT5Bidirectional) {
  EXPECT_THAT(buckets_of({0, -1, -7, -8, -11, -12, -16, -32, -64, -127, -128, -9999}),
              testing::ElementsAre(0, 1, 7, 8, 8, 9, 10, 12, 14, 15, 15, 15));
  EXPECT_THAT(
      buckets_of({1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 500}),
      testing::ElementsAre(17, 23, 24, 24, 25, 25, 26, 26, 27, 27, 28, 28, 29, 29, 30, 30, 31, 31));
}

TEST(RelativeBuckets, MatchT5Causal) {
  const RelativeBucketOptions causal{.bidirectional = false};
  EXPECT_THAT(
      buckets_of({0, -1, -15, -16, -18, -19, -20, -21, -31, -64, -112, -113, -128, -500}, causal),
      testing::ElementsAre(0, 1, 15, 16, 16, 17, 17, 18, 21, 26, 30, 31, 31, 31));
  EXPECT_THAT(buckets_of({1, 2, 200}, causal), testing::ElementsAre(0, 0, 0));
}

TEST(RelativeBuckets, MatchFormulaForOtherOptions) {
  seed_afresh();
  const auto offsets = torch::arange(-600, 601);
  for (int round = 0; round < 40; ++round) {
    RelativeBucketOptions options{.num_buckets = 2 * draw(2, 40), .bidirectional = draw(0, 1) == 1};
    options.max_distance = options.num_buckets / 2 + draw(1, 400);
    const auto buckets = relative_buckets(offsets, options);
    for (int64_t i = 0; i < offsets.size(0); ++i) {
      const auto offset = offsets[i].item<int64_t>();
      // At a bucket's edge, rounding errors decide between two buckets. The next test checks the
      // edges exactly, for T5's options.
      ASSERT_THAT(buckets[i].item<int64_t>(),
                  testing::AnyOf(bucket_of_offset(offset, options, 1e-5),
                                 bucket_of_offset(offset, options, -1e-5)))
          << "offset " << offset << ", " << options.num_buckets << " buckets up to "
          << options.max_distance;
    }
  }
}

TEST(RelativeBuckets, EdgesMatchFormulaForT5Options) {
  for (const bool bidirectional : {true, false}) {
    const RelativeBucketOptions options{.bidirectional = bidirectional};
    std::vector<int64_t> offsets;
    std::vector<int64_t> expected;
    for (int64_t offset = -300; offset <= 300; ++offset) {
      offsets.push_back(offset);
      expected.push_back(bucket_of_offset(offset, options));
    }
    EXPECT_EQ(buckets_of(offsets, options), expected);
  }
}

TEST(RelativeBuckets, CoverExactlyAllBuckets) {
  for (const bool bidirectional : {true, false}) {
    const auto buckets =
        relative_buckets(torch::arange(-200, 201), {.bidirectional = bidirectional});
    EXPECT_EQ(buckets.min().item<int64_t>(), 0);
    EXPECT_EQ(buckets.max().item<int64_t>(), 31);
    // If bidirectional, one bucket is unused: distance 0 has only one direction.
    EXPECT_EQ(std::get<0>(at::_unique(buckets)).numel(), bidirectional ? 31 : 32);
  }
}

TEST(RelativeBuckets, HaveTheShapeOfTheOffsets) {
  EXPECT_EQ(relative_buckets(torch::zeros({0, 1, 3, 4}, torch::kLong)).sizes(),
            at::IntArrayRef({0, 1, 3, 4}));
  EXPECT_EQ(relative_buckets(torch::zeros({2, 0}, torch::kInt)).scalar_type(), torch::kLong);
}

TEST(RelativeBuckets, TraceGeneralizesToOtherSizes) {
  const auto run = [](const Tensors& x) { return relative_buckets(x[0]); };
  const auto traced = trace(run, {torch::zeros({2, 3}, torch::kLong)});
  const auto offsets = torch::arange(-300, 300).view({4, 150});
  EXPECT_TRUE(torch::equal(traced({offsets}), run({offsets})));
}

TEST(RelativeBucketsErrors, ValuesOutOfRangeThrow) {
  const auto with = [](const RelativeBucketOptions& options) {
    return [options] { relative_buckets(torch::zeros({1}), options); };
  };
  EXPECT_THAT(with({.num_buckets = 2}),
              throws<c10::ValueError>("num_buckets (2) must be an even number of at least 4 if "
                                      "bidirectional"));
  EXPECT_THAT(with({.num_buckets = 5}), throws<c10::ValueError>("num_buckets (5) must be"));
  EXPECT_THAT(with({.num_buckets = 1, .bidirectional = false}),
              throws<c10::ValueError>("num_buckets (1) must be at least 2"));
  EXPECT_THAT(
      with({.max_distance = 8}),
      throws<c10::ValueError>("max_distance (8) must be greater than 8: distances below 8 have "
                              "a bucket each"));
}

}  // namespace
}  // namespace attend
