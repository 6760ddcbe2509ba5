#pragma once

#include "export/export_case.h"

#include <string>
#include <utility>
#include <vector>

namespace attend {

/// Collects cases of single operators, for ONNX alone: the other formats hold any operator as it
/// is.
///
///     OperatorTable with(reals("x", {kBatch, kLength, 6}));
///     with("squared", [](T x) { return x.square(); });
class OperatorTable {
 public:
  /// Floating point inputs are of `dtype`. `suffix` ends all names.
  explicit OperatorTable(CaseInput input, std::string suffix = {},
                         torch::Dtype dtype = torch::kFloat)
      : input_(std::move(input)), suffix_(std::move(suffix)), dtype_(dtype) {}

  /// `run` captures nothing: hundreds of objects to keep and destroy would compile for a minute.
  template <typename Run>
  void operator()(const char* name, Run /*run*/) {
    add(name, [](const Tensors& in) -> Outputs { return Run{}(in.at(0)); });
  }

  /// Gives what was collected.
  std::vector<ExportCase> take() { return std::move(cases_); }

 private:
  void add(const char* name, Outputs (*run)(const Tensors&));

  CaseInput input_;
  std::string suffix_;
  torch::Dtype dtype_;
  std::vector<ExportCase> cases_;
};

// What most operators are tried with.

/// x: (B, T, 6) of normal numbers.
CaseInput numbers();
/// x: (B, T, 6) between 0 and 1, neither of which occurs.
CaseInput fractions();
/// x: (B, T) of -9 .. 9.
CaseInput whole_numbers();

std::vector<ExportCase> function_operators();
std::vector<ExportCase> arithmetic_operators();
std::vector<ExportCase> comparison_operators();
std::vector<ExportCase> reduction_operators();
std::vector<ExportCase> product_operators();
std::vector<ExportCase> shape_operators();
std::vector<ExportCase> part_operators();
std::vector<ExportCase> creation_operators();
std::vector<ExportCase> indexing_operators();
std::vector<ExportCase> memory_operators();
std::vector<ExportCase> layer_operators();
std::vector<ExportCase> type_operators();
std::vector<ExportCase> unusual_operators();

}  // namespace attend
