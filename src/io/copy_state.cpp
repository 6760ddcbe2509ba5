#include "io/copy_state.h"

#include "attend/input_error.h"
#include "io/name_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace attend {
namespace {

std::string name_of(torch::Dtype dtype) {
  return std::string(c10::getDtypeNames(dtype).first);
}

/// Returns true if LibTorch can copy values of the first dtype to tensors of the second.
bool can_cast(torch::ScalarType from, torch::ScalarType to) {
  if (!c10::canCast(from, to)) return false;
  try {
    torch::empty({1}, from).to(to);
    return true;
  } catch (const c10::Error&) {  // LibTorch has no kernel for this copy
    return false;
  }
}

/// Returns why `source` cannot be copied to a tensor of the shape and dtype, or an empty string.
std::string mismatch(const StateEntry& source, c10::IntArrayRef shape, torch::Dtype dtype,
                     bool cast) {
  if (!source.problem.empty()) return source.problem;
  if (source.shape != shape) {
    return fmt::format("found shape ({}), expected ({})", fmt::join(source.shape, ", "),
                       fmt::join(shape, ", "));
  }
  if (source.dtype == dtype || (cast && can_cast(source.dtype, dtype))) return "";
  return fmt::format("found dtype {}, expected {}{}", name_of(source.dtype), name_of(dtype),
                     cast ? " or one that can be cast to it" : "");
}

const void* storage_of(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

/// A prefix that only the names of the source have, or only those of the destination.
struct ExtraPrefix {
  std::string text;  // with the dot at its end; empty = none
  bool in_source = true;

  /// Returns the name in the destination for a name in the source.
  std::string destination_name(const std::string& name) const {
    if (!in_source) return text + name;
    return name.starts_with(text) ? name.substr(text.size()) : name;
  }
};

/// Returns the prefix that explains most of the missing and unexpected names.
ExtraPrefix extra_prefix(const IncompatibleKeys& keys) {
  std::map<std::pair<std::string, bool>, int64_t> counts;
  const auto count = [&](const auto& longer, const auto& shorter, bool in_source) {
    const std::set<std::string> suffixes(shorter.begin(), shorter.end());
    for (const auto& name : longer) {
      for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
        if (suffixes.contains(name.substr(dot + 1))) ++counts[{name.substr(0, dot + 1), in_source}];
      }
    }
  };
  count(keys.unexpected_keys, keys.missing_keys, /*in_source=*/true);
  count(keys.missing_keys, keys.unexpected_keys, /*in_source=*/false);
  if (counts.empty()) return {};
  const auto [text, in_source] =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  return {.text = text, .in_source = in_source};
}

}  // namespace

std::string list_problems(NamesByProblem problems, const IncompatibleKeys& keys,
                          const std::string& how) {
  const auto prefix = extra_prefix(keys);
  std::set<std::string> missing(keys.missing_keys.begin(), keys.missing_keys.end());
  for (const auto& name : keys.unexpected_keys) {
    const bool differs_by_prefix = missing.erase(prefix.destination_name(name)) > 0;
    problems[differs_by_prefix ? fmt::format("{} the prefix '{}' {} these names{}",
                                             prefix.in_source ? "remove" : "add", prefix.text,
                                             prefix.in_source ? "from" : "to", how)
                               : "unexpected"]
        .push_back(name);
  }
  for (const auto& name : missing) problems["missing"].push_back(name);
  std::vector<std::string> list;
  for (const auto& [problem, names] : problems)
    list.push_back(fmt::format("{}: {}", fmt::join(group_names(names), ", "), problem));
  return fmt::format("{}", fmt::join(list, "; "));
}

std::string why_not_dense(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "found an undefined tensor";
  const bool is_dense = tensor.layout() == torch::kStrided && !tensor.is_nested();
  if (is_dense && !tensor.is_meta()) return "";
  return fmt::format("found a {} tensor, expected a dense tensor with data",
                     tensor.is_meta()     ? "meta"
                     : tensor.is_nested() ? "nested"
                                          : c10::str(tensor.layout()));
}

IncompatibleKeys check_state(const std::map<std::string, torch::Tensor>& destination,
                             const std::map<std::string, StateEntry>& source,
                             const std::string& what, const CheckStateOptions& options) {
  IncompatibleKeys keys;
  NamesByProblem problems;
  std::set<const void*> found_tensors;
  for (const auto& [name, tensor] : destination) {
    const auto found = source.find(name);
    if (found == source.end()) continue;
    found_tensors.insert(tensor.unsafeGetTensorImpl());
    const auto dtype = tensor.is_floating_point() ? options.dtype.value_or(tensor.scalar_type())
                                                  : tensor.scalar_type();
    const auto why = mismatch(found->second, tensor.sizes(), dtype, options.cast);
    if (!why.empty()) problems[why].push_back(name);
  }
  for (const auto& [name, tensor] : destination) {
    if (!found_tensors.contains(tensor.unsafeGetTensorImpl())) keys.missing_keys.push_back(name);
  }
  for (const auto& item : source) {
    if (!destination.contains(item.first)) keys.unexpected_keys.push_back(item.first);
  }
  const auto list = list_problems(std::move(problems), options.strict ? keys : IncompatibleKeys(),
                                  options.how_to_rename);
  if (!list.empty())
    throw InputError(fmt::format("the {} does not match the model: {}", what, list));
  return keys;
}

IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                            const std::map<std::string, torch::Tensor>& source,
                            const std::string& what, const CheckStateOptions& options) {
  std::map<std::string, StateEntry> entries;
  for (const auto& [name, tensor] : source) {
    auto& entry = entries[name];
    entry.problem = why_not_dense(tensor);
    if (entry.problem.empty()) entry = {tensor.sizes().vec(), tensor.scalar_type()};
  }
  auto keys = check_state(destination, entries, what, options);
  const torch::NoGradGuard no_grad;
  std::set<const void*> overwritten;  // storages of `destination`
  for (const auto& item : destination) overwritten.insert(storage_of(item.second));
  std::map<std::string, torch::Tensor> values;
  for (const auto& item : destination) {
    const auto found = source.find(item.first);
    if (found == source.end()) continue;
    const auto& value = found->second;
    // A value that shares storage with `destination` is cloned, since `copy_` below overwrites the
    // storage.
    values[item.first] = overwritten.contains(storage_of(value)) ? value.clone() : value;
  }
  for (const auto& [name, value] : values) destination.at(name).copy_(value);
  return keys;
}

}  // namespace attend
