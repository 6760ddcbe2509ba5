#include "io/copy_state.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace attend {
namespace {

std::string dtype_of(const torch::Tensor& tensor) {
  return std::string(c10::getDtypeNames(tensor.scalar_type()).first);
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

/// Returns an error message if `source` cannot be copied to `destination`, else an empty string.
std::string mismatch(const torch::Tensor& source, const torch::Tensor& destination, bool cast) {
  if (auto why = why_not_dense(source); !why.empty()) return why;
  if (source.sizes() != destination.sizes()) {
    return fmt::format("found shape ({}), expected ({})", fmt::join(source.sizes(), ", "),
                       fmt::join(destination.sizes(), ", "));
  }
  const auto to = destination.scalar_type();
  if (source.scalar_type() == to || (cast && can_cast(source.scalar_type(), to))) return "";
  return fmt::format("found dtype {}, expected {}{}", dtype_of(source), dtype_of(destination),
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

/// Returns a message for each missing and each unexpected name, and one for all names that differ
/// from an expected name only by a prefix.
std::vector<std::string> name_problems(const IncompatibleKeys& keys) {
  const auto prefix = extra_prefix(keys);
  std::set<std::string> missing(keys.missing_keys.begin(), keys.missing_keys.end());
  std::vector<std::string> renamed;
  std::vector<std::string> problems;
  for (const auto& name : keys.unexpected_keys) {
    if (missing.erase(prefix.destination_name(name)) > 0) {
      renamed.push_back(name);
    } else {
      problems.push_back(name + ": unexpected");
    }
  }
  for (const auto& name : missing) problems.push_back(name + ": missing");
  if (!renamed.empty()) {
    problems.push_back(fmt::format("{}: {} the prefix '{}' {} these names",
                                   fmt::join(renamed, ", "), prefix.in_source ? "remove" : "add",
                                   prefix.text, prefix.in_source ? "from" : "to"));
  }
  return problems;
}

}  // namespace

std::string why_not_dense(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "found an undefined tensor";
  const bool is_dense = tensor.layout() == torch::kStrided && !tensor.is_nested();
  if (is_dense && !tensor.is_meta()) return "";
  return fmt::format("found a {} tensor, expected a dense tensor with data",
                     tensor.is_meta()     ? "meta"
                     : tensor.is_nested() ? "nested"
                                          : c10::str(tensor.layout()));
}

IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                            const std::map<std::string, torch::Tensor>& source,
                            const std::string& what, const CopyStateOptions& options) {
  IncompatibleKeys keys;
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : destination) {
    const auto found = source.find(name);
    if (found == source.end()) {
      keys.missing_keys.push_back(name);
    } else if (const auto why = mismatch(found->second, tensor, options.cast); !why.empty()) {
      problems.push_back(fmt::format("{}: {}", name, why));
    }
  }
  for (const auto& item : source) {
    if (!destination.contains(item.first)) keys.unexpected_keys.push_back(item.first);
  }
  if (options.strict) {
    for (auto& problem : name_problems(keys)) problems.push_back(std::move(problem));
  }
  if (!problems.empty()) {
    throw InputError(
        fmt::format("the {} does not match the model: {}", what, fmt::join(problems, "; ")));
  }
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
