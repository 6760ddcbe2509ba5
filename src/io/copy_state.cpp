#include "io/copy_state.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

namespace attend {
namespace {

std::string dtype_of(const torch::Tensor& tensor) {
  return std::string(c10::getDtypeNames(tensor.scalar_type()).first);
}

/// Returns an error message if `source` cannot be copied to `destination`, else an empty string.
std::string mismatch(const torch::Tensor& source, const torch::Tensor& destination, bool cast) {
  if (!source.defined()) return "found an undefined tensor";
  if (source.layout() != torch::kStrided || source.is_meta()) {
    return fmt::format("found a {} tensor, expected a dense tensor with data",
                       source.is_meta() ? "meta" : "non-strided");
  }
  if (source.sizes() != destination.sizes()) {
    return fmt::format("found shape ({}), expected ({})", fmt::join(source.sizes(), ", "),
                       fmt::join(destination.sizes(), ", "));
  }
  const auto to = destination.scalar_type();
  if (source.scalar_type() == to || (cast && c10::canCast(source.scalar_type(), to))) return "";
  return fmt::format("found dtype {}, expected {}{}", dtype_of(source), dtype_of(destination),
                     cast ? " or one that can be cast to it" : "");
}

const void* storage_of(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

}  // namespace

IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                            const std::map<std::string, torch::Tensor>& source,
                            const std::string& what, const CopyStateOptions& options) {
  IncompatibleKeys keys;
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : destination) {
    const auto found = source.find(name);
    if (found == source.end()) {
      keys.missing_keys.push_back(name);
      if (options.strict) problems.push_back(name + ": missing");
    } else if (const auto why = mismatch(found->second, tensor, options.cast); !why.empty()) {
      problems.push_back(fmt::format("{}: {}", name, why));
    }
  }
  for (const auto& item : source) {
    if (destination.contains(item.first)) continue;
    keys.unexpected_keys.push_back(item.first);
    if (options.strict) problems.push_back(item.first + ": unexpected");
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
