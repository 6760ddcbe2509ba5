#include "export/onnx/memory.h"

#include "export/onnx/refusal.h"
#include "export/onnx/rules.h"
#include "export/program/target.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace attend::onnx {
namespace {

struct MemoryUse {
  std::string argument;  // its name
  bool shared = false;   // the results are views of it, or it itself
  bool written = false;  // the call changes it
};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Whether views by an operator are the same numbers in the same order.
bool only_reshapes(const std::string& key) {
  constexpr std::array<std::string_view, 11> kOthers{
      "alias.default",   "contiguous.default", "detach.default",    "detach_.default",
      "squeeze.default", "squeeze.dim",        "squeeze.dims",      "squeeze_.default",
      "squeeze_.dim",    "unsqueeze.default",  "unsqueeze_.default"};
  return is_among(kReshapings, key) || is_among(kOthers, key);
}

/// What an operator's schema says of the memory of its first argument.
MemoryUse memory_use(const std::string& target) {
  if (!program::is_operator(target)) return {};
  // Of the same type it is the tensor itself, of which its schema says nothing.
  if (key_of(target) == "type_as.default") return {.argument = "self", .shared = true};
  const auto parts = program::parse_target(target);
  const auto found = c10::Dispatcher::singleton().findSchema(
      {parts.qualified_name(), parts.dispatcher_overload()});
  if (!found || found->schema().arguments().empty()) return {};
  const auto& first = found->schema().arguments().front();
  const auto* alias = first.alias_info();
  if (alias == nullptr) return {.argument = first.name()};
  return {.argument = first.name(), .shared = true, .written = alias->isWrite()};
}

/// Whether an operator that changes a tensor leaves its numbers alone: what it gives is a view of
/// what was there.
bool changes_shape_alone(const std::string& key) {
  constexpr std::array<std::string_view, 6> kOperators{"detach_.default",    "squeeze_.default",
                                                       "squeeze_.dim",       "t_.default",
                                                       "transpose_.default", "unsqueeze_.default"};
  return is_among(kOperators, key);
}

template <typename T>
const T* find_argument(const program::Node& node, std::string_view name) {
  for (const auto& input : node.inputs) {
    if (input.name == name) return std::get_if<T>(&input.value);
  }
  return nullptr;
}

/// Whether a call asks for an order of numbers in memory that decides whether it copies.
bool asks_for_format(const program::Node& node) {
  const auto* format = find_argument<program::MemoryFormatNumber>(node, "memory_format");
  if (format == nullptr) return false;
  constexpr int64_t kContiguous = 1;
  constexpr int64_t kPreserve = 4;
  return format->number != (key_of(node.target) == "contiguous.default" ? kContiguous : kPreserve);
}

}  // namespace

void Memory::check_reads(const program::Node& node) const {
  for (const auto& input : node.inputs) {
    for (const auto& name : names_in(input.value)) check_read(name);
  }
}

void Memory::check_read(const std::string& name) const {
  const auto stale = stale_.find(name);
  if (stale == stale_.end()) return;
  throw Refusal(
      fmt::format("it reads memory that {} has changed through another view of it", stale->second));
}

void Memory::note(const program::Node& node) {
  if (key_of(node.target) == "broadcast_tensors.default") return note_broadcast(node);
  const auto use = memory_use(node.target);
  if (!use.shared) return;
  std::string of;
  for (const auto& input : node.inputs) {
    const auto names = names_in(input.value);
    if (input.name == use.argument && !names.empty()) of = names.front();
  }
  if (!use.written || changes_shape_alone(key_of(node.target))) return note_views(node, of);
  const auto group = group_of(of);
  if (std::any_of(group.begin(), group.end(), [&](const auto& any) { return is_weight(any); })) {
    throw Refusal("it changes a parameter or buffer, which a file cannot keep from run to run");
  }
  const auto result = results_of(node).front();
  translation_.values[of] = translation_.values.at(result);
  auto fresh = write_through(of);
  look_again(group, fresh);
  for (const auto& other : group) {
    if (fresh.count(other) == 0) stale_[other] = operator_name(node.target);
  }
  // The tensor goes on under this name.
  join(result, of);
  aliases_[result] = of;
}

void Memory::note_views(const program::Node& node, const std::string& of) {
  for (const auto& result : results_of(node)) {
    if (is_copy(node, result, of)) continue;
    join(result, of);
    if (is_followed(node, of)) views_[result] = {&node, of};
  }
}

/// Its results are views, each of one of its arguments, of which its schema says nothing.
void Memory::note_broadcast(const program::Node& node) {
  const auto results = results_of(node);
  const auto tensors = names_in(node.inputs.at(0).value);
  for (std::size_t i = 0; i < results.size(); ++i) join(results[i], tensors.at(i));
}

/// Of what may be a view or a copy by its schema: whether it is a copy at all sizes.
bool Memory::is_copy(const program::Node& node, const std::string& result,
                     const std::string& of) const {
  const auto& one = translation_.program.tensors.at(result);
  const auto& other = translation_.program.tensors.at(of);
  if (one.dtype != other.dtype) return true;
  if (const auto* copy = find_argument<bool>(node, "copy"); copy != nullptr && *copy) return true;
  if (asks_for_format(node)) return false;
  return key_of(node.target) == "contiguous.default" && other.is_contiguous == false;
}

/// Whether what may be a view is one at all sizes, and of the same part of the tensor later on.
/// Otherwise no file can say what becomes of one when the other is changed.
bool Memory::is_followed(const program::Node& node, const std::string& of) const {
  constexpr std::array<std::string_view, 5> kViewsWherePossible{
      "contiguous.default", "flatten.using_ints", "ravel.default", "reshape.default",
      "reshape_as.default"};
  const auto key = key_of(node.target);
  // The second begins where a tensor says, which may change.
  if (asks_for_format(node) || key == "narrow.Tensor") return false;
  return !is_among(kViewsWherePossible, key) ||
         translation_.program.tensors.at(of).is_contiguous == true;
}

bool Memory::is_weight(const std::string& name) const {
  const auto& inputs = translation_.program.inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](const program::Input& input) {
    return input.name == name && input.kind != program::InputKind::user &&
           input.kind != program::InputKind::constant;
  });
}

std::vector<std::string> Memory::group_of(const std::string& name) const {
  const auto group = groups_.find(name);
  if (group == groups_.end()) return {name};
  std::vector<std::string> all;
  for (const auto& [other, number] : groups_) {
    if (number == group->second) all.push_back(other);
  }
  return all;
}

void Memory::join(const std::string& name, const std::string& of) {
  const auto group = groups_.emplace(of, groups_.size()).first->second;
  groups_[name] = group;
}

/// Calls views of what has become right once more, until no others follow.
void Memory::look_again(const std::vector<std::string>& group, std::set<std::string>& fresh) {
  for (bool more = true; more;) {
    more = false;
    for (const auto& name : group) {
      if (fresh.count(name) > 0) continue;
      const auto alias = aliases_.find(name);
      if (alias != aliases_.end() && fresh.count(alias->second) > 0) {
        translation_.values[name] = translation_.values.at(alias->second);
        fresh.insert(name);
        more = true;
        continue;
      }
      const auto view = views_.find(name);
      if (view == views_.end() || fresh.count(view->second.of) == 0) continue;
      Call call(*view->second.node, translation_);
      (*find_rule(view->second.node->target))(call);
      for (const auto& result : results_of(*view->second.node)) fresh.insert(result);
      more = true;
    }
  }
}

/// Puts what a view became into what it is a view of, and so on; returns whose values are right.
std::set<std::string> Memory::write_through(std::string name) {
  std::set<std::string> fresh{name};
  // Back to the name that a view was made under.
  for (auto alias = aliases_.find(name); alias != aliases_.end(); alias = aliases_.find(name)) {
    translation_.values[alias->second] = translation_.values.at(name);
    name = alias->second;
    fresh.insert(name);
  }
  const auto view = views_.find(name);
  if (view == views_.end()) return fresh;
  const auto base = view->second.of;
  // Parts of one tensor lie beside each other.
  for (const auto& part : results_of(*view->second.node)) {
    if (stale_.count(part) == 0) fresh.insert(part);
  }
  if (put_back(*view->second.node, name, base)) fresh.merge(write_through(base));
  return fresh;
}

/// Whether the value of `base` is now right.
bool Memory::put_back(const program::Node& view, const std::string& part, const std::string& base) {
  const auto& meta = translation_.program.tensors;
  program::Node call{.target = {}, .inputs = view.inputs, .outputs = {program::TensorName{base}}};
  const auto key = key_of(view.target);
  if (key == "select.int" || key == "slice.Tensor") {
    call.target = key == "select.int" ? "torch.ops.aten.select_scatter.default"
                                      : "torch.ops.aten.slice_scatter.default";
    call.inputs.push_back({"src", program::TensorName{part}});
    Call scatter(call, translation_);
    (*find_rule(call.target))(scatter);
    return true;
  }
  if (key == "chunk.default" || key == "split.Tensor" || key == "split_with_sizes.default" ||
      key == "unbind.int") {
    const auto parts = results_of(view);
    const auto is_stale = [&](const std::string& any) { return stale_.count(any) > 0; };
    if (std::any_of(parts.begin(), parts.end(), is_stale)) return false;
    call.target =
        key == "unbind.int" ? "torch.ops.aten.stack.default" : "torch.ops.aten.cat.default";
    std::erase_if(call.inputs, [](const auto& input) { return input.name != "dim"; });
    call.inputs.push_back(
        {"tensors", std::get<std::vector<program::TensorName>>(view.outputs.front())});
    Call join_parts(call, translation_);
    (*find_rule(call.target))(join_parts);
    return true;
  }
  if (!only_reshapes(key)) return false;
  Call reshape(call, translation_);
  reshape.give(
      reshape.reshape(translation_.values.at(part), meta.at(part).sizes, meta.at(base).sizes));
  return true;
}

}  // namespace attend::onnx
