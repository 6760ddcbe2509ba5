#include "report/model_data.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attend::app {
namespace {

std::vector<int64_t> repeats(const nlohmann::ordered_json& tree) {
  std::vector<int64_t> counts;
  for (const auto& child : tree.at("children"))
    counts.push_back(child.at("repeats").get<int64_t>());
  return counts;
}

TEST(ModelTree, EqualModulesOfAListAreOneEntry) {
  torch::nn::ModuleList list;
  for (const int64_t width : {3, 3, 4, 3}) list->push_back(torch::nn::Linear(2, width));
  EXPECT_THAT(repeats(model_tree("list", *list)), testing::ElementsAre(2, 1, 1));
}

/// A list of `count` lists, each of which has a module of another size.
nlohmann::ordered_json large_tree(int64_t count) {
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < count; ++i) {
    torch::nn::ModuleList inner;
    inner->push_back(torch::nn::Linear(1, i + 1));
    list->push_back(inner);
  }
  return model_tree("list", *list);
}

TEST(ModelTree, ThousandsOfModulesAreLimitedToTheOuterOnes) {
  auto tree = large_tree(3000);
  EXPECT_EQ(limit_modules(tree, 1000), 6001U);
  EXPECT_EQ(tree.at("children").size(), 999U);
  EXPECT_LT(tree.dump().size(), 200'000U);
  tree = large_tree(10);
  EXPECT_EQ(limit_modules(tree, 13), 21U);
  std::vector<std::size_t> sizes;
  for (const auto& child : tree.at("children")) sizes.push_back(child.at("children").size());
  EXPECT_THAT(sizes, testing::ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(ModelTree, SmallTreesAreNotLimited) {
  auto tree = large_tree(10);
  const auto whole = tree;
  EXPECT_EQ(limit_modules(tree, 21), 21U);
  EXPECT_EQ(tree, whole);
}

}  // namespace
}  // namespace attend::app
