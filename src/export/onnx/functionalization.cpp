#include "export/onnx/functionalization.h"

#include "export/onnx/rules.h"
#include "export/onnx/slices.h"
#include "export/onnx/unsupported_operator_error.h"
#include "export/program/node_arguments.h"
#include "program/target.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace attend::onnx {
namespace {

struct AliasInfo {
  std::string argument;     // name of the first argument
  bool is_alias = false;    // the results are views of the argument, or the argument itself
  bool is_mutated = false;  // the operator mutates the argument in place
};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// Returns true for operators such as reshape and squeeze, whose result has the elements of the
/// first argument in the same order. `key` is the operator's name and overload, such as
/// "squeeze.dim".
bool is_reshape(const std::string& key) {
  constexpr std::array<std::string_view, 11> kOthers{
      "alias.default",   "contiguous.default", "detach.default",    "detach_.default",
      "squeeze.default", "squeeze.dim",        "squeeze.dims",      "squeeze_.default",
      "squeeze_.dim",    "unsqueeze.default",  "unsqueeze_.default"};
  return is_among(kReshapings, key) || is_among(kOthers, key);
}

/// Returns whether the results of the operator `target` alias the operator's first argument, and
/// whether the operator mutates this argument. The operator's schema contains this information.
AliasInfo alias_info_of(const std::string& target) {
  if (!program::is_operator(target)) return {};
  // Exception: type_as returns its first argument if both arguments have the same dtype, but the
  // schema of type_as has no alias annotation.
  if (program::key_of(target) == "type_as.default") return {.argument = "self", .is_alias = true};
  const auto parts = program::parse_target(target);
  const auto found = c10::Dispatcher::singleton().findSchema(
      {parts.qualified_name(), parts.dispatcher_overload()});
  if (!found || found->schema().arguments().empty()) return {};
  const auto& first = found->schema().arguments().front();
  const auto* alias = first.alias_info();
  if (alias == nullptr) return {.argument = first.name()};
  return {.argument = first.name(), .is_alias = true, .is_mutated = alias->isWrite()};
}

/// Returns true for in-place operators that change no elements, only the shape or other metadata.
/// These operators are treated like operators that return views.
bool is_inplace_view(const std::string& key) {
  constexpr std::array<std::string_view, 6> kOperators{"detach_.default",    "squeeze_.default",
                                                       "squeeze_.dim",       "t_.default",
                                                       "transpose_.default", "unsqueeze_.default"};
  return is_among(kOperators, key);
}

/// Returns true if the call has a `memory_format` other than the operator's default, which is
/// contiguous for `contiguous` and preserve for all other operators. Such a call may copy its input
/// to another memory layout.
bool has_memory_format(const program::Node& node) {
  const auto* format = program::find_argument<program::SchemaMemoryFormat>(node, "memory_format");
  if (format == nullptr) return false;
  constexpr int64_t kContiguous = 1;
  constexpr int64_t kPreserve = 4;
  return format->value !=
         (program::key_of(node.target) == "contiguous.default" ? kContiguous : kPreserve);
}

}  // namespace

void Functionalization::check_reads(const program::Node& node) const {
  for (const auto& input : node.inputs) {
    for (const auto& name : program::names_in(input.value)) check_read(name);
  }
}

void Functionalization::check_read(const std::string& name) const {
  const auto stale = stale_.find(name);
  if (stale == stale_.end()) return;
  throw UnsupportedOperatorError(fmt::format(
      "{} mutated the memory of a tensor through another view; reading the tensor afterwards is "
      "not supported",
      stale->second));
}

void Functionalization::record(const program::Node& node) {
  if (program::key_of(node.target) == "broadcast_tensors.default") return record_broadcast(node);
  const auto info = alias_info_of(node.target);
  if (!info.is_alias) return;
  std::string base;
  for (const auto& input : node.inputs) {
    const auto names = program::names_in(input.value);
    if (input.name == info.argument && !names.empty()) base = names.front();
  }
  if (!info.is_mutated || is_inplace_view(program::key_of(node.target)))
    return record_views(node, base);
  const auto group = group_of(base);
  if (const auto* input = find_input(group)) {
    throw UnsupportedOperatorError(
        input->kind == program::InputKind::user
            ? fmt::format(
                  "mutation of the input '{}' is not supported; mutate a clone, and return the "
                  "new value as an output. Mutation of a tensor that may share memory with the "
                  "input is not supported either: `reshape` and `contiguous`, for example, copy "
                  "only at some sizes",
                  input->name)
            : fmt::format("mutation of the parameter or buffer '{}' is not supported; pass the "
                          "tensor as an input and return its new value as an output",
                          input->target));
  }
  const auto result = results_of(node).front();
  translation_.values[base] = translation_.values.at(result);
  auto updated = propagate_to_base(base);
  recompute_views(group, updated);
  for (const auto& other : group) {
    if (updated.count(other) == 0) stale_[other] = operator_name(node.target);
  }
  // Later nodes refer to the mutated tensor by the name `result`.
  join(result, base);
  aliases_[result] = base;
}

void Functionalization::record_views(const program::Node& node, const std::string& base) {
  for (const auto& result : results_of(node)) {
    if (is_copy(node, result, base)) continue;
    join(result, base);
    if (is_propagated(node, base)) views_[result] = {&node, base};
  }
}

/// Records aten::broadcast_tensors. Each output is a view of one element of `tensors`, although the
/// schema has no alias annotations.
void Functionalization::record_broadcast(const program::Node& node) {
  const auto results = results_of(node);
  const auto tensors = program::names_in(node.inputs.at(0).value);
  for (std::size_t i = 0; i < results.size(); ++i) join(results[i], tensors.at(i));
}

/// Returns true if `result` is known to be a copy of `base` at all sizes of the dynamic dimensions.
/// Operators such as `to` and `contiguous` return either `base` itself or a copy.
bool Functionalization::is_copy(const program::Node& node, const std::string& result,
                                const std::string& base) const {
  const auto& output = translation_.program.tensors.at(result);
  const auto& input = translation_.program.tensors.at(base);
  // A cast copies, but view_as_real and view_as_complex return views of another dtype.
  if (output.dtype != input.dtype) return is_complex(output) == is_complex(input);
  if (const auto* copy = program::find_argument<bool>(node, "copy"); copy != nullptr && *copy)
    return true;
  if (has_memory_format(node)) return false;
  return program::key_of(node.target) == "contiguous.default" && input.is_contiguous == false;
}

/// Returns true if the outputs of `node` can be recomputed after a mutation of `base`. This is the
/// case if the outputs are views of `base` at all sizes of the dynamic dimensions, and if the
/// position of the outputs in `base` is constant.
bool Functionalization::is_propagated(const program::Node& node, const std::string& base) const {
  constexpr std::array<std::string_view, 5> kViewsWherePossible{
      "contiguous.default", "flatten.using_ints", "ravel.default", "reshape.default",
      "reshape_as.default"};
  const auto key = program::key_of(node.target);
  // The argument `start` of narrow.Tensor is a tensor, which may have been mutated too. The
  // position of the view is then not constant.
  if (has_memory_format(node) || key == "narrow.Tensor") return false;
  return !is_among(kViewsWherePossible, key) ||
         translation_.program.tensors.at(base).is_contiguous == true;
}

const program::Input* Functionalization::find_input(const std::vector<std::string>& names) const {
  const auto& inputs = translation_.program.inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const program::Input& input) {
    return input.kind != program::InputKind::constant &&
           std::find(names.begin(), names.end(), input.name) != names.end();
  });
  return found == inputs.end() ? nullptr : &*found;
}

std::vector<std::string> Functionalization::group_of(const std::string& name) const {
  const auto group = groups_.find(name);
  if (group == groups_.end()) return {name};
  std::vector<std::string> all;
  for (const auto& [other, number] : groups_) {
    if (number == group->second) all.push_back(other);
  }
  return all;
}

void Functionalization::join(const std::string& name, const std::string& base) {
  const auto group = groups_.emplace(base, groups_.size()).first->second;
  groups_[name] = group;
}

/// Updates the views and aliases of the tensors in `updated`, then the views and aliases of the
/// newly updated tensors, and so on. Adds the names of all updated tensors to `updated`.
void Functionalization::recompute_views(const std::vector<std::string>& group,
                                        std::set<std::string>& updated) {
  for (bool more = true; more;) {
    more = false;
    for (const auto& name : group) {
      if (updated.count(name) > 0) continue;
      const auto alias = aliases_.find(name);
      if (alias != aliases_.end() && updated.count(alias->second) > 0) {
        translation_.values[name] = translation_.values.at(alias->second);
        updated.insert(name);
        more = true;
        continue;
      }
      const auto view = views_.find(name);
      if (view == views_.end() || updated.count(view->second.base) == 0) continue;
      Call call(*view->second.node, translation_);
      (*find_rule(*view->second.node, translation_.program))(call);
      for (const auto& result : results_of(*view->second.node)) updated.insert(result);
      more = true;
    }
  }
}

/// Propagates the new value of a view to its base, then to the base of the base, and so on, until a
/// base cannot be updated. Returns the names of the tensors whose values are up to date.
std::set<std::string> Functionalization::propagate_to_base(std::string name) {
  std::set<std::string> updated{name};
  // The output of an in-place operator is an alias of its input. The loop follows the aliases to
  // the tensor that is not an output of an in-place operator.
  for (auto alias = aliases_.find(name); alias != aliases_.end(); alias = aliases_.find(name)) {
    translation_.values[alias->second] = translation_.values.at(name);
    name = alias->second;
    updated.insert(name);
  }
  const auto view = views_.find(name);
  if (view == views_.end()) return updated;
  const auto base = view->second.base;
  // The outputs of split, chunk and unbind do not overlap, so writing to one output does not change
  // the other outputs: their values stay valid.
  for (const auto& part : results_of(*view->second.node)) {
    if (stale_.count(part) == 0) updated.insert(part);
  }
  if (update_base(*view->second.node, name, base)) updated.merge(propagate_to_base(base));
  return updated;
}

/// Adds the ONNX nodes of `node`. Returns false if there is no translation rule, as for some
/// operators on complex tensors.
bool Functionalization::translate(const program::Node& node) {
  const auto* rule = find_rule(node, translation_.program);
  if (rule == nullptr) return false;
  Call call(node, translation_);
  (*rule)(call);
  return true;
}

/// Writes the new value of `part`, an output of the node `view`, to `base`. Returns false if `base`
/// cannot be updated.
bool Functionalization::update_base(const program::Node& view, const std::string& part,
                                    const std::string& base) {
  const auto& meta = translation_.program.tensors;
  program::Node call{.target = {}, .inputs = view.inputs, .outputs = {program::TensorName{base}}};
  const auto key = program::key_of(view.target);
  if (key == "narrow.default") {
    const auto* start = program::find_argument<int64_t>(view, "start");
    const auto* length = program::find_argument<int64_t>(view, "length");
    if (start == nullptr || length == nullptr) return false;
    std::erase_if(call.inputs, [](const auto& input) { return input.name == "length"; });
    call.inputs.push_back({"end", end_of_narrow(*start, *length)});
  }
  if (key == "select.int" || key == "slice.Tensor" || key == "narrow.default") {
    call.target = key == "select.int" ? "torch.ops.aten.select_scatter.default"
                                      : "torch.ops.aten.slice_scatter.default";
    call.inputs.push_back({"src", program::TensorName{part}});
    return translate(call);
  }
  if (key == "chunk.default" || key == "split.Tensor" || key == "split_with_sizes.default" ||
      key == "tensor_split.sections" || key == "unbind.int") {
    const auto parts = results_of(view);
    const auto is_stale = [&](const std::string& any) { return stale_.count(any) > 0; };
    if (std::any_of(parts.begin(), parts.end(), is_stale)) return false;
    call.target =
        key == "unbind.int" ? "torch.ops.aten.stack.default" : "torch.ops.aten.cat.default";
    std::erase_if(call.inputs, [](const auto& input) { return input.name != "dim"; });
    call.inputs.push_back(
        {"tensors", std::get<std::vector<program::TensorName>>(view.outputs.front())});
    return translate(call);
  }
  if (!is_reshape(key) || is_complex(meta.at(base))) return false;
  Call reshape(call, translation_);
  reshape.set_output(
      reshape.reshape(translation_.values.at(part), meta.at(part).sizes, meta.at(base).sizes));
  return true;
}

}  // namespace attend::onnx
