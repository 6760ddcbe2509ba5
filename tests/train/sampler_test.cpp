#include "attend/train/sampler.h"

#include "attend/input_error.h"
#include "support/seed.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <set>

namespace attend::train {
namespace {

std::multiset<int64_t> numbers_of(const torch::Tensor& rows) {
  const auto* data = rows.data_ptr<int64_t>();
  return {data, data + rows.numel()};
}

std::multiset<int64_t> each_once(int64_t count) {
  return numbers_of(torch::arange(count));
}

TEST(Sampler, VisitsEachRowOncePerEpochInANewOrder) {
  Sampler sampler(seed_afresh());
  const auto first = sampler.rows(50, 50);
  const auto second = sampler.rows(50, 50);
  EXPECT_EQ(numbers_of(first), each_once(50));
  EXPECT_EQ(numbers_of(second), each_once(50));
  EXPECT_FALSE(first.equal(second));
}

TEST(Sampler, EpochsMayEndWithinABatch) {
  Sampler whole(3);
  Sampler parts(3);
  const auto expected = torch::cat({whole.rows(7, 7), whole.rows(7, 7), whole.rows(7, 7)});
  EXPECT_TRUE(torch::cat({parts.rows(7, 5), parts.rows(7, 1), parts.rows(7, 15)}).equal(expected));
  EXPECT_EQ(numbers_of(expected.narrow(0, 7, 7)), each_once(7));
}

TEST(Sampler, StateInMidEpochIsComplete) {
  seed_afresh();
  for (const int64_t taken : {int64_t{0}, draw(1, 9), int64_t{10}, draw(11, 40)}) {
    Sampler sampler(5);
    if (taken > 0) sampler.rows(10, taken);
    const auto state = sampler.state();
    Sampler restored(6);
    restored.rows(3, 2);
    restored.load_state(state);
    EXPECT_TRUE(restored.rows(10, 23).equal(sampler.rows(10, 23))) << taken << " rows taken";
    EXPECT_EQ(restored.below(1000000), sampler.below(1000000));
    restored.load_state(state);  // state() returned copies
    Sampler again(7);
    again.load_state(state);
    EXPECT_TRUE(restored.rows(10, 23).equal(again.rows(10, 23)));
  }
}

TEST(Sampler, BelowIsUniform) {
  Sampler sampler(seed_afresh());
  std::vector<int> counts(6);
  for (int i = 0; i < 6000; ++i) ++counts.at(static_cast<std::size_t>(sampler.below(6)));
  // Each count has a binomial distribution: 6000 draws with a probability of 1/6. Its mean is 1000,
  // and six standard deviations are 173.
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Gt(827), testing::Lt(1173))));
}

TEST(Sampler, ThrowsForAnInvalidState) {
  Sampler sampler(1);
  sampler.rows(5, 2);
  for (const auto* missing : {"generator", "order", "next"}) {
    auto state = sampler.state();
    state.erase(missing);
    EXPECT_THAT([&] { sampler.load_state(state); },
                throws<InputError>((std::string("no valid '") + missing + "'").c_str()));
  }
  auto state = sampler.state();
  state["next"] = torch::tensor(6, torch::kLong);
  EXPECT_THAT([&] { sampler.load_state(state); }, throws<InputError>("at row 6, expected 0 to 5"));
}

}  // namespace
}  // namespace attend::train
