#include "io/copy_state.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace attend {
namespace {

std::string dtype_of(const torch::Tensor& tensor) {
  return std::string(c10::getDtypeNames(tensor.scalar_type()).first);
}

}  // namespace

void copy_state(std::map<std::string, torch::Tensor> destination,
                const std::map<std::string, torch::Tensor>& source, const std::string& what) {
  std::vector<std::string> differences;
  for (const auto& [name, tensor] : destination) {
    const auto found = source.find(name);
    if (found == source.end()) {
      differences.push_back(fmt::format("{}: missing", name));
    } else if (found->second.scalar_type() != tensor.scalar_type()) {
      differences.push_back(fmt::format("{}: found dtype {}, expected {}", name,
                                        dtype_of(found->second), dtype_of(tensor)));
    } else if (found->second.sizes() != tensor.sizes()) {
      differences.push_back(fmt::format("{}: found shape ({}), expected ({})", name,
                                        fmt::join(found->second.sizes(), ", "),
                                        fmt::join(tensor.sizes(), ", ")));
    }
  }
  for (const auto& item : source) {
    if (!destination.contains(item.first)) {
      differences.push_back(fmt::format("{}: unknown", item.first));
    }
  }
  if (!differences.empty()) {
    throw InputError(
        fmt::format("the {} does not fit the model: {}", what, fmt::join(differences, "; ")));
  }
  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : destination) tensor.copy_(source.at(name));
}

}  // namespace attend
