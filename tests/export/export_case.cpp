#include "export/export_case.h"

namespace attend {

CaseInput tokens(const char* name, int64_t vocab_size, std::vector<int64_t> shape) {
  return {name, std::move(shape), [vocab_size](const std::vector<int64_t>& sizes) {
            return torch::randint(vocab_size, sizes, torch::kLong);
          }};
}

CaseInput reals(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return torch::randn(sizes); }};
}

CaseInput bools(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return torch::rand(sizes) < 0.7; }};
}

CaseInput non_decreasing(const char* name, std::vector<int64_t> shape) {
  return {name, std::move(shape),
          [](const std::vector<int64_t>& sizes) { return (torch::rand(sizes) < 0.4).cumsum(-1); }};
}

ExportCase cast(ExportCase any, torch::Dtype dtype) {
  any.module->to(dtype);
  any.dtype = dtype;
  return any;
}

/// Specifications of the dynamic sizes, indexed by -DynamicSize - 1.
std::vector<DynamicSizeSpec>& dynamic_sizes() {
  static std::vector<DynamicSizeSpec> all{{
      {"batch", 1, 16, 2, {1, 7, 4}},
      {"length", 1, 16, 5, {16, 1, 9}},
      {"memory_length", 1, 16, 4, {12, 7, 1}},
  }};
  return all;
}

const DynamicSizeSpec& spec_of(int64_t dynamic_size) {
  return dynamic_sizes().at(static_cast<std::size_t>(-dynamic_size - 1));
}

int64_t add_dynamic_size(const DynamicSizeSpec& spec) {
  dynamic_sizes().push_back(spec);
  return -static_cast<int64_t>(dynamic_sizes().size());
}

double tolerance_of(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kDouble:
      return 1e-10;
    case torch::kHalf:
      return 1e-2;
    case torch::kBFloat16:
      return 3e-2;
    default:
      return 1e-5;
  }
}

int64_t draw_between(int64_t min, int64_t max) {
  return torch::randint(min, max + 1, {}, torch::kLong).item<int64_t>();
}

Tensors draw(const ExportCase& any, const std::function<int64_t(const DynamicSizeSpec&)>& size) {
  Tensors inputs;
  for (const auto& input : any.inputs) {
    auto sizes = input.shape;
    for (auto& extent : sizes) {
      if (extent < 0) extent = size(spec_of(extent));
    }
    const auto drawn = input.draw(sizes);
    inputs.push_back(drawn.is_floating_point() ? drawn.to(any.dtype) : drawn);
  }
  return inputs;
}

Tensors draw_example(const ExportCase& any) {
  return draw(any, [](const DynamicSizeSpec& size) { return size.example; });
}

ExportOptions options_of(const ExportCase& any) {
  ExportOptions options{.tolerance = tolerance_of(any.dtype)};
  for (std::size_t i = 0; i < any.inputs.size(); ++i) {
    options.input_names.push_back(any.inputs[i].name);
    for (std::size_t d = 0; d < any.inputs[i].shape.size(); ++d) {
      if (any.inputs[i].shape[d] >= 0) continue;
      const auto& size = spec_of(any.inputs[i].shape[d]);
      options.dynamic.push_back({.input = i,
                                 .dimension = static_cast<int64_t>(d),
                                 .name = size.name,
                                 .min = size.min,
                                 .max = size.max});
    }
  }
  return options;
}

std::vector<ExportCase> joined(const std::vector<std::vector<ExportCase>>& lists) {
  std::vector<ExportCase> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace attend
