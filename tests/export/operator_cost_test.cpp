#include "export/cost_model.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

namespace attend {
namespace {

template <typename Function>
OperatorCost cost_of(const Function& function) {
  OperatorCost cost;
  const OperatorCostGuard guard(cost);
  function();
  return cost;
}

struct OperatorCostTest : testing::Test {
  torch::Tensor x = torch::ones({3, 4});  // 12 elements, 48 bytes
};

TEST_F(OperatorCostTest, IsTheLargestTensorAndTheSumOfTheElements) {
  const auto cost = cost_of([&] {
    x.exp();
    x.to(torch::kDouble).exp();
    x[0].exp();
  });
  EXPECT_EQ(cost.bytes, 96);
  EXPECT_GE(cost.elements, 12 + 2 * 12 + 4);  // to() calls other operators
  EXPECT_EQ(cost_of([&] { x.exp(); }).elements, 12);
}

TEST_F(OperatorCostTest, IncludesOperatorsThatOtherOperatorsCall) {
  const auto w = torch::ones({4, 5});
  EXPECT_EQ(cost_of([&] { x.mm(w); }).elements, 15);
  const auto cost = cost_of([&] { x.matmul(w); });  // calls mm
  EXPECT_EQ(cost.elements, 30);
  EXPECT_EQ(cost.bytes, 60);
}

TEST_F(OperatorCostTest, IncludesTensorsThatOnlyAnInnerOperatorReturns) {
  // cosine_similarity returns 3 elements, but calls operators that return 12, such as x * x.
  const auto cost = cost_of([&] { torch::cosine_similarity(x, x, 1); });
  EXPECT_EQ(cost.bytes, 48);
}

TEST_F(OperatorCostTest, IncludesListsOfTensors) {
  const auto cost = cost_of([&] { torch::_foreach_exp({x, x}); });  // calls exp twice
  EXPECT_EQ(cost.elements, 2 * 12 + 2 * 12);
}

TEST_F(OperatorCostTest, IsZeroForViewsAndInPlaceOperators) {
  const auto cost = cost_of([&] {
    x.transpose(0, 1).slice(0, 1, 3).flatten(0, 0);
    x.expand({100, 3, 4});
    x.unbind();
    x.split(2);
    torch::broadcast_tensors({x, x[0]});
    x.add_(x).relu_();
  });
  EXPECT_EQ(cost.bytes, 0);
  EXPECT_EQ(cost.elements, 0);
}

TEST_F(OperatorCostTest, BytesAreThoseOfTheStorage) {
  const auto cost = cost_of([] { torch::empty_strided({1000, 2}, {0, 1}); });
  EXPECT_EQ(cost.bytes, 8);
  EXPECT_EQ(cost.elements, 2000);
}

TEST_F(OperatorCostTest, AcceptsOperatorsThatThrow) {
  const auto cost = cost_of([&] { EXPECT_ANY_THROW(x.mm(x)); });
  EXPECT_EQ(cost.elements, 0);
  EXPECT_EQ(cost_of([&] { x.exp(); }).elements, 12);
}

TEST_F(OperatorCostTest, IsConstantAfterTheEndOfTheGuard) {
  OperatorCost cost;
  x.exp();
  { const OperatorCostGuard guard(cost); }
  x.exp();
  EXPECT_EQ(cost.elements, 0);
  EXPECT_EQ(cost.bytes, 0);
  EXPECT_EQ(cost_of([&] { x.exp(); }).elements, 12);  // a second guard on this thread
}

TEST_F(OperatorCostTest, EachThreadHasItsOwnCost) {
  OperatorCost other;
  const auto cost = cost_of([&] {
    x.exp();
    std::thread([&] {
      x.exp();  // not counted
      other = cost_of([&] { torch::cat({x, x}); });
    }).join();
    x.exp();
  });
  EXPECT_EQ(cost.elements, 24);
  EXPECT_EQ(other.elements, 24);
  EXPECT_EQ(other.bytes, 96);
}

/// LibTorch copies the callback of `OperatorCostGuard` to the threads that LibTorch starts. In
/// these threads, the callback must not record costs.
TEST_F(OperatorCostTest, OmitsOperatorsInThreadsOfLibTorch) {
  const auto cost = cost_of([&] {
    const auto result = std::make_shared<std::promise<torch::Tensor>>();
    at::launch([this, result] { result->set_value(x.exp()); });
    result->get_future().get();
  });
  EXPECT_EQ(cost.elements, 0);
}

TEST(BytesOf, AddsTheMemoryOfTensors) {
  EXPECT_EQ(bytes_of({torch::ones({3, 4}), torch::ones({2}, torch::kLong)}), 48 + 16);
  EXPECT_EQ(bytes_of({}), 0);
}

}  // namespace
}  // namespace attend
