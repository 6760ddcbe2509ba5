#include "attend/train/objective.h"
#include "attend/train/regression_metrics.h"
#include "support/in_threads.h"

#include <gmock/gmock.h>

#include <array>
#include <mutex>

namespace attend::distributed {
namespace {

using train::Evaluation;
using train::EvaluationOptions;

// Sums of these numbers depend on the order, also in float64.
constexpr std::array kLosses{1e16, 1.5, -1e16, 0.1, 1e-3, 3e8, 0.3};

/// Results of a batch that a classifier evaluates.
Evaluation result_of(int64_t index) {
  return {.loss = kLosses[static_cast<std::size_t>(index)],
          .exact_match = {.correct = index, .total = index + 1},
          .num_targets = 10 + index,
          .confusion_matrix = torch::full({2, 2}, index, torch::kLong),
          .moments = torch::full({train::kNumMoments}, 0.1 * static_cast<double>(index + 1),
                                 torch::kDouble)};
}

/// Number of processes and `max_batches`.
struct EvaluationInProcesses : testing::TestWithParam<std::tuple<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(, EvaluationInProcesses,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(0, 2, 5)));

TEST_P(EvaluationInProcesses, HasTheBitsOfASingleProcess) {
  const auto [size, max_batches] = GetParam();
  Evaluation expected;
  const auto chosen = train::spread(std::ssize(kLosses), max_batches);
  auto matrix = torch::zeros({2, 2}, torch::kLong);
  std::vector<torch::Tensor> moments;
  for (const auto index : chosen) {
    const auto batch = result_of(index);
    expected.loss += batch.loss;
    expected.num_targets += batch.num_targets;
    expected.exact_match += batch.exact_match;
    matrix += batch.confusion_matrix;
    moments.push_back(batch.moments);
  }
  expected.loss /= static_cast<double>(expected.num_targets);
  std::mutex mutex;
  std::vector<int64_t> evaluated;
  const auto errors = in_processes(size, [&, max_batches = max_batches](const auto& processes) {
    const EvaluationOptions options{.max_batches = max_batches, .processes = processes};
    const auto found = train::evaluate_in_batches(std::ssize(kLosses), options, [&](int64_t index) {
      const std::lock_guard lock(mutex);
      evaluated.push_back(index);
      return result_of(index);
    });
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.num_targets, expected.num_targets);
    EXPECT_EQ(found.exact_match.correct, expected.exact_match.correct);
    EXPECT_EQ(found.exact_match.total, expected.exact_match.total);
    EXPECT_TRUE(found.confusion_matrix.equal(matrix));
    EXPECT_TRUE(found.moments.equal(torch::stack(moments).sum(0)));
    EXPECT_EQ(found.is_partial, chosen.size() < kLosses.size());
  });
  EXPECT_THAT(errors, testing::Each(""));
  EXPECT_THAT(evaluated, testing::UnorderedElementsAreArray(chosen)) << "each batch once";
}

TEST(EvaluateInBatches, AProcessStopsAll) {
  const auto errors = in_processes(2, [](const auto& processes) {
    int64_t done = 0;
    const auto stop = [&] { return processes->rank() == 1 && done == 4; };
    const auto on_batch = [&](int64_t now, int64_t) { done = now; };
    train::evaluate_in_batches(
        std::ssize(kLosses), {.stop_requested = stop, .on_batch = on_batch, .processes = processes},
        result_of);
    EXPECT_EQ(done, 4);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

}  // namespace
}  // namespace attend::distributed
