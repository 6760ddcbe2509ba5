#pragma once

#include "attend/export/export_options.h"
#include "attend/nn/eval_guard.h"

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// What every export does around its own work: it checks names and options, sets eval mode and no
/// gradients, and gives parameters and buffers back what they held, should a forward change them.
class ExportGuard {
 public:
  /// Throws c10::ValueError.
  ExportGuard(torch::nn::Module& module, const std::vector<torch::Tensor>& example_inputs,
              const ExportOptions& options);
  ~ExportGuard();
  ExportGuard(const ExportGuard&) = delete;
  ExportGuard& operator=(const ExportGuard&) = delete;

  /// Notes a tensor of the graph that the module holds, but neither as parameter nor as buffer.
  void add_constant(const torch::Tensor& tensor);

  /// Before what the buffers hold is written, or compared. Throws std::runtime_error for a
  /// parameter or constant that changed: no file can hold that.
  void restore();

 private:
  struct Held {
    std::string name;
    torch::Tensor tensor;
    torch::Tensor copy;
  };
  static bool restore(const Held& held);  // whether it had changed

  EvalGuard eval_;
  torch::NoGradGuard no_grad_;
  std::vector<Held> parameters_;
  std::vector<Held> buffers_;
  std::vector<Held> constants_;
};

}  // namespace attend
