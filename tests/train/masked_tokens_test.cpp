#include "attend/train/masked_tokens.h"

#include "support/seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

TEST(MaskTokens, ChoosesAFractionOfEachRow) {
  seed_afresh();
  auto generator =
      torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(draw(0, 1000)));
  for (const double probability : {0.15, 0.5}) {
    const auto tokens = torch::randint(50, {6, 40}, torch::kLong);
    auto maskable = torch::rand({6, 40}).lt(0.8);
    maskable[5] = torch::arange(40).eq(7);  // one token
    const auto batch = mask_tokens(tokens, maskable, {3, 50, probability}, generator);
    const auto chosen = batch.targets.ne(kIgnoreIndex);
    EXPECT_FALSE(chosen.logical_and(maskable.logical_not()).any().item<bool>());
    EXPECT_TRUE(batch.targets.masked_select(chosen).equal(tokens.masked_select(chosen)));
    EXPECT_TRUE(batch.answers.equal(chosen));
    const auto kept = chosen.logical_not();
    EXPECT_TRUE(batch.tokens.masked_select(kept).equal(tokens.masked_select(kept)));
    for (int64_t row = 0; row < 6; ++row) {
      const auto count = static_cast<double>(maskable[row].sum().item<int64_t>());
      EXPECT_EQ(chosen[row].sum().item<int64_t>(),
                std::max<int64_t>(std::llrint(count * probability), 1));
    }
  }
}

TEST(MaskTokens, ReplacesEightyPercentAndKeepsTen) {
  seed_afresh();
  auto generator =
      torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(draw(0, 1000)));
  constexpr int64_t kMask = 1000, kVocab = 1001;
  const auto tokens = torch::zeros({200, 400}, torch::kLong);
  const auto batch = mask_tokens(tokens, tokens.eq(0), {kMask, kVocab, 0.5}, generator);
  const auto count = static_cast<double>(batch.answers.sum().item<int64_t>());  // 40,000
  const auto fraction = [&](const torch::Tensor& mask) {
    return static_cast<double>(mask.logical_and(batch.answers).sum().item<int64_t>()) / count;
  };
  // Of a fraction p, the standard deviation is sqrt(p (1 - p) / count): 0.002 and 0.0015.
  EXPECT_NEAR(fraction(batch.tokens.eq(kMask)), 0.8 + 0.1 / kVocab, 0.012);
  EXPECT_NEAR(fraction(batch.tokens.eq(0)), 0.1 + 0.1 / kVocab, 0.009);
}

TEST(MaskTokens, EqualStatesGiveEqualBatches) {
  const FixedSeed seed;
  const auto tokens = torch::randint(50, {4, 30}, torch::kLong);
  const auto of_seed = [&](uint64_t number) {
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(number);
    return mask_tokens(tokens, tokens.ge(0), {3, 50}, generator).tokens;
  };
  EXPECT_TRUE(of_seed(1).equal(of_seed(1)));
  EXPECT_FALSE(of_seed(1).equal(of_seed(2)));
}

}  // namespace
}  // namespace attend::train
