#include "attend/io/tensor_tree.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

TensorTree tree_of(const std::vector<std::string>& names) {
  std::vector<TensorInfo> tensors;
  for (const auto& name : names) tensors.push_back({.name = name, .elements = 10, .bytes = 40});
  return tensor_tree(tensors);
}

/// Formats a tree as in "a(b c.d)": the name of a node, then its children in parentheses.
std::string text_of(const TensorTree& tree) {
  std::string text = tree.name;
  if (tree.children.empty()) return text;
  std::string separator = "(";
  for (const auto& child : tree.children) {
    text += separator + text_of(child);
    separator = " ";
  }
  return text + ")";
}

TEST(TensorTree, GroupsTensorsByModule) {
  const auto tree = tree_of({"embedding.token.weight", "decoder.norm.weight", "decoder.norm.bias",
                             "decoder.out", "head"});
  EXPECT_EQ(text_of(tree), "(embedding.token.weight decoder(norm(weight bias) out) head)");
  EXPECT_EQ(tree.children[1].children[0].children[1].tensor->name, "decoder.norm.bias");
}

TEST(TensorTree, TotalsIncludeAllDescendants) {
  const auto tree = tree_of({"a.b", "a.c.d", "a.c.e", "f"});
  EXPECT_EQ(tree.totals.elements, 40);
  EXPECT_EQ(tree.children[0].totals.elements, 30);
  EXPECT_EQ(tree.children[0].totals.tensors, 3);
  EXPECT_EQ(tree.children[0].children[1].totals.bytes, 80);
}

TEST(TensorTree, NumberedChildrenAreInNumericOrder) {
  EXPECT_EQ(text_of(tree_of({"x.0", "x.1", "x.10", "x.2"})), "(x(0 1 2 10))");
  EXPECT_EQ(text_of(tree_of({"x.b", "x.10", "x.a"})), "(x(b 10 a))");
  EXPECT_EQ(text_of(tree_of({"h10.w", "e", "h2.w", "h1.w", "z1"})), "(h1.w e h2.w h10.w z1)");
}

TEST(TensorTree, ATensorMayHaveTheNameOfAModule) {
  const auto tree = tree_of({"a", "a.b"});
  EXPECT_EQ(text_of(tree), "(a(b))");
  EXPECT_TRUE(tree.children[0].tensor);
  EXPECT_EQ(tree.children[0].totals.elements, 20);
}

TEST(TensorTree, HandlesEmptyAndDegenerateNames) {
  EXPECT_EQ(tree_of({}).totals.tensors, 0);
  EXPECT_EQ(tree_of({"..", ".", "a."}).totals.tensors, 3);
  const std::string dots(1'000'000, '.');
  EXPECT_EQ(tree_of({dots + "a", dots + "b"}).totals.tensors, 2);
}

TEST(TensorTree, CountNodesAndDepthForAgree) {
  const auto tree = tree_of({"a.b.c", "a.b.d", "a.e", "f"});  // (a(b(c d) e) f)
  EXPECT_EQ(count_nodes(tree, 1), 2);
  EXPECT_EQ(count_nodes(tree, 2), 4);
  EXPECT_EQ(count_nodes(tree, 9), 6);
  EXPECT_EQ(depth_for(tree, 1), 1);
  EXPECT_EQ(depth_for(tree, 5), 2);
  EXPECT_GE(depth_for(tree, 6), 3);
}

}  // namespace
}  // namespace attend
