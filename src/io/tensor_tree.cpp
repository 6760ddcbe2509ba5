#include "attend/io/tensor_tree.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace attend {
namespace {

/// Maximum depth of the tree. The maximum limits the recursion, since a malicious file may contain
/// a name with a million dots.
constexpr int kMaxLevels = 64;

/// A tensor, and the part of its name below the current node.
struct Member {
  const TensorInfo* tensor;
  std::string_view rest;
};

std::string without_digits(std::string name) {
  std::erase_if(name, [](char c) { return c >= '0' && c <= '9'; });
  return name;
}

/// Sorts the nodes whose names differ only in their numbers: layer2 precedes layer10. The nodes of
/// each such group are sorted among the places that they had.
void sort_by_numbers(std::vector<TensorTree>& nodes) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < nodes.size(); ++i) groups[without_digits(nodes[i].name)].push_back(i);
  const auto is_less = [](const TensorTree& a, const TensorTree& b) {
    return strverscmp(a.name.c_str(), b.name.c_str()) < 0;
  };
  for (const auto& [stem, places] : groups) {
    std::vector<TensorTree> group;
    for (const auto place : places) group.push_back(std::move(nodes[place]));
    std::stable_sort(group.begin(), group.end(), is_less);
    for (std::size_t i = 0; i < places.size(); ++i) nodes[places[i]] = std::move(group[i]);
  }
}

/// Groups `members` by the part of `Member::rest` before the first dot, in order of first
/// occurrence. If `levels` is 1, `rest` is not split at dots.
std::vector<std::pair<std::string, std::vector<Member>>> split(const std::vector<Member>& members,
                                                               int levels) {
  std::vector<std::pair<std::string, std::vector<Member>>> groups;
  std::map<std::string_view, std::size_t> index;
  for (const auto& [tensor, rest] : members) {
    const auto dot = levels > 1 ? rest.find('.') : std::string_view::npos;
    const auto part = rest.substr(0, dot);
    const auto [place, is_new] = index.try_emplace(part, groups.size());
    if (is_new) groups.push_back({std::string(part), {}});
    const auto left = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    groups[place->second].second.push_back({tensor, left});
  }
  return groups;
}

void join_with_only_child(TensorTree& tree) {
  if (tree.tensor || tree.children.size() != 1) return;
  auto child = std::move(tree.children.front());
  child.name = tree.name + "." + child.name;
  tree = std::move(child);
}

TensorTree build(std::string name, const std::vector<Member>& members, int levels) {
  TensorTree tree{.name = std::move(name), .tensor = {}, .children = {}, .totals = {}};
  std::vector<TensorInfo> all;
  std::vector<Member> below;
  for (const auto& member : members) {
    all.push_back(*member.tensor);
    const bool is_here = member.rest.empty() && !tree.tensor;
    if (is_here)
      tree.tensor = *member.tensor;
    else
      below.push_back(member);
  }
  tree.totals = totals_of(all);
  for (const auto& [part, group] : split(below, levels)) {
    tree.children.push_back(build(part, group, levels - 1));
    join_with_only_child(tree.children.back());
  }
  sort_by_numbers(tree.children);
  return tree;
}

}  // namespace

TensorTree tensor_tree(const std::vector<TensorInfo>& tensors) {
  std::vector<Member> members;
  for (const auto& tensor : tensors) members.push_back({&tensor, tensor.name});
  return build("", members, kMaxLevels);
}

int64_t count_nodes(const TensorTree& tree, int64_t depth) {
  if (depth == 0) return 0;
  int64_t nodes = 0;
  for (const auto& child : tree.children) nodes += 1 + count_nodes(child, depth - 1);
  return nodes;
}

int64_t depth_for(const TensorTree& tree, int64_t nodes) {
  int64_t depth = 1;
  while (depth < kMaxLevels && count_nodes(tree, depth + 1) <= nodes) ++depth;
  return depth;
}

}  // namespace attend
