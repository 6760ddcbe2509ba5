#pragma once

#include "export/export_case.h"

#include <string>
#include <utility>
#include <vector>

namespace attend {

/// Collects cases of single operators, for ONNX only; the other formats store ATen operators as
/// they are.
///
///     OperatorTable with(reals("x", {kBatch, kLength, 6}));
///     with("squared", [](T x) { return x.square(); });
class OperatorTable {
 public:
  /// `dtype` is the dtype of float inputs; `suffix` is appended to all names.
  explicit OperatorTable(CaseInput input, std::string suffix = {},
                         torch::Dtype dtype = torch::kFloat)
      : input_(std::move(input)), suffix_(std::move(suffix)), dtype_(dtype) {}

  /// Adds a case. `run` must be a lambda without captures, which can be called through a function
  /// pointer: hundreds of std::function objects would take a minute to compile.
  template <typename Run>
  void operator()(const char* name, Run /*run*/) {
    add(name, [](const Tensors& in) -> Outputs { return Run{}(in.at(0)); });
  }

  /// Returns the collected cases.
  std::vector<ExportCase> take() { return std::move(cases_); }

 private:
  void add(const char* name, Outputs (*run)(const Tensors&));

  CaseInput input_;
  std::string suffix_;
  torch::Dtype dtype_;
  std::vector<ExportCase> cases_;
};

// Inputs of most operator cases.

/// x: (B, T, 6), normally distributed.
CaseInput floats();
/// x: (B, T, 6) in (0, 1).
CaseInput fractions();
/// x: (B, T), integers in -9 .. 9.
CaseInput integers();

std::vector<ExportCase> function_operators();
std::vector<ExportCase> arithmetic_operators();
std::vector<ExportCase> comparison_operators();
std::vector<ExportCase> reduction_operators();
std::vector<ExportCase> product_operators();
std::vector<ExportCase> shape_operators();
std::vector<ExportCase> slice_operators();
std::vector<ExportCase> creation_operators();
std::vector<ExportCase> indexing_operators();
std::vector<ExportCase> mutation_operators();
std::vector<ExportCase> layer_operators();
std::vector<ExportCase> signal_operators();
std::vector<ExportCase> type_operators();
std::vector<ExportCase> special_value_operators();

}  // namespace attend
