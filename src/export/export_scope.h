#pragma once

#include "attend/export/export_options.h"
#include "attend/nn/eval_scope.h"

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// What every export does around its own work: it checks names and options, sets eval mode and no
/// gradients, and gives the buffers back what they held, should a forward change them.
class ExportScope {
 public:
  /// Throws c10::ValueError.
  ExportScope(torch::nn::Module& module, const std::vector<torch::Tensor>& example_inputs,
              const ExportOptions& options);
  ~ExportScope() { restore_buffers(); }
  ExportScope(const ExportScope&) = delete;
  ExportScope& operator=(const ExportScope&) = delete;

  /// Before what the buffers hold is written, or compared. Throws std::runtime_error for a
  /// parameter that changed: no file can hold that.
  void restore();

 private:
  struct Held {
    std::string name;
    torch::Tensor tensor;
    uint32_t version;    // counts changes
    torch::Tensor copy;  // of a buffer
  };
  void restore_buffers();

  EvalScope eval_;
  torch::NoGradGuard no_grad_;
  std::vector<Held> parameters_;
  std::vector<Held> buffers_;
};

}  // namespace attend
