#include "attend/io/tensor_tree.h"

#include <algorithm>
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

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

/// Returns true if the name of `a` is a smaller number than the name of `b`: 2 is less than 10.
/// Both names must be numbers.
bool is_less(const TensorTree& a, const TensorTree& b) {
  return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
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
  const auto has_number = [](const TensorTree& child) { return is_number(child.name); };
  if (std::all_of(tree.children.begin(), tree.children.end(), has_number)) {
    std::stable_sort(tree.children.begin(), tree.children.end(), is_less);
  }
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
