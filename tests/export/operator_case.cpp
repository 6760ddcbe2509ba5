#include "export/operator_case.h"

namespace attend {

void OperatorTable::add(const char* name, Outputs (*run)(const Tensors&)) {
  struct NoParameters : torch::nn::Module {};
  cases_.push_back({.group = "Operator",
                    .option = name + suffix_,
                    .module = std::make_shared<NoParameters>(),
                    .forward = run,
                    .inputs = {input_},
                    .dtype = dtype_,
                    .formats = {"onnx"}});
}

CaseInput floats() {
  return reals("x", {kBatch, kLength, 6});
}

CaseInput fractions() {
  return {"x", {kBatch, kLength, 6}, [](const std::vector<int64_t>& sizes) {
            return torch::rand(sizes) * 0.9 + 0.05;
          }};
}

CaseInput integers() {
  return {"x", {kBatch, kLength}, [](const std::vector<int64_t>& sizes) {
            return torch::randint(-9, 10, sizes);
          }};
}

std::vector<ExportCase> operator_cases() {
  return joined({function_operators(), arithmetic_operators(), comparison_operators(),
                 reduction_operators(), product_operators(), shape_operators(), slice_operators(),
                 creation_operators(), indexing_operators(), mutation_operators(),
                 layer_operators(), signal_operators(), type_operators(),
                 special_value_operators()});
}

}  // namespace attend
