#include "export/resize.h"

#include <ATen/ops/arange.h>

namespace attend {

std::vector<torch::Tensor> resize(const std::vector<torch::Tensor>& example,
                                  const std::vector<DynamicDimension>& dynamic,
                                  const std::map<std::string, int64_t>& sizes, int64_t shift) {
  std::vector<torch::Tensor> inputs;
  for (const auto& input : example) inputs.push_back(input.clone());
  for (const auto& dimension : dynamic) {
    auto& input = inputs.at(dimension.input);
    const auto whole = torch::TensorOptions(torch::kLong).device(input.device());
    const auto index = at::arange(shift, shift + sizes.at(dimension.name), whole)
                           .remainder(input.size(dimension.dimension));
    input = input.index_select(dimension.dimension, index);
  }
  return inputs;
}

}  // namespace attend
