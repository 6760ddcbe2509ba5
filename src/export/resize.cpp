#include "export/resize.h"

#include <ATen/ops/arange.h>

#include <set>

namespace attend {

std::vector<DynamicDimension> distinct(const std::vector<DynamicDimension>& dynamic) {
  std::vector<DynamicDimension> all;
  std::set<std::string> names;
  for (const auto& dimension : dynamic) {
    if (names.insert(dimension.name).second) all.push_back(dimension);
  }
  return all;
}

SizesByName sizes_of(const std::vector<torch::Tensor>& example,
                     const std::vector<DynamicDimension>& dynamic) {
  SizesByName sizes;
  for (const auto& dimension : dynamic) {
    sizes[dimension.name] = example.at(dimension.input).size(dimension.dimension);
  }
  return sizes;
}

std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

std::vector<torch::Tensor> resize(const std::vector<torch::Tensor>& example,
                                  const std::vector<DynamicDimension>& dynamic,
                                  const SizesByName& sizes, int64_t shift) {
  auto inputs = copies_of(example);
  for (const auto& dimension : dynamic) {
    auto& input = inputs.at(dimension.input);
    const auto example_size = input.size(dimension.dimension);
    const auto found = sizes.find(dimension.name);
    const auto size = found == sizes.end() ? example_size : found->second;
    const auto int64 = torch::TensorOptions(torch::kLong).device(input.device());
    const auto index = at::arange(shift, shift + size, int64).remainder(example_size);
    input = input.index_select(dimension.dimension, index);
  }
  return inputs;
}

}  // namespace attend
