#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "attend/nn/eval_guard.h"
#include "attend/ops/fast_kernels.h"
#include "export/check_names.h"
#include "export/copy_before_write.h"
#include "export/values_read.h"
#include "ops/rng_state.h"

#include <torch/nn/module.h>

#include <locale>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend {

/// RAII guard: until the end of the scope, the global locale of C++ and the locale of C are the
/// classic ones. LibTorch writes and parses the numbers of TorchScript code with streams of the
/// global locale, in which a decimal point may be a comma. Both locales belong to the process. The
/// guard does nothing if both are classic already.
class ATTEND_API ClassicLocaleGuard {
 public:
  ClassicLocaleGuard();
  ~ClassicLocaleGuard();
  ClassicLocaleGuard(const ClassicLocaleGuard&) = delete;
  ClassicLocaleGuard& operator=(const ClassicLocaleGuard&) = delete;

 private:
  std::locale cpp_;  // the global locale
  std::string c_;
  bool is_needed_;
};

/// RAII guard of every export. The constructor validates names and options, sets eval mode, and
/// disables gradients. The destructor undoes both settings, and restores the default random number
/// generators and the parameters and buffers that forward mutated. While forward is traced, the
/// guard records the operators that read values of tensors, such as `item()`.
class ATTEND_API ExportGuard {
 public:
  /// Throws c10::ValueError if the options or the example inputs are invalid, or if a parameter,
  /// buffer or submodule has a name that files of this format do not support.
  ExportGuard(torch::nn::Module& module, const std::vector<torch::Tensor>& example_inputs,
              const ExportOptions& options, TargetFormat format);
  ~ExportGuard();
  ExportGuard(const ExportGuard&) = delete;
  ExportGuard& operator=(const ExportGuard&) = delete;

  /// Adds a tensor that the traced graph contains as a constant. `restore` throws if forward
  /// mutated it. Does nothing if `tensor` is a buffer of the module, since forward may mutate
  /// buffers.
  void add_constant(const torch::Tensor& tensor);

  /// Lets the parameters of a loaded file share the memory of the module's parameters with the same
  /// names, where they are equal: otherwise the weights would need twice the memory.
  void share_parameters(const std::map<std::string, torch::Tensor>& loaded) const;

  /// Restores buffers and parameters to their values before the export. Throws std::runtime_error
  /// if forward mutated a parameter or a constant, since no format supports such mutations.
  void restore();

  /// Returns the operators that read values while forward was traced, and their call sites.
  std::vector<std::string> values_read() const { return values_read_.texts(); }

 private:
  ClassicLocaleGuard locale_;  // LibTorch writes code and messages with the global locale
  EvalGuard eval_;
  torch::NoGradGuard no_grad_;
  NoFastKernelsGuard no_kernels_;  // the exported program calls LibTorch, too
  RecordValuesRead values_read_;
  std::optional<RngGuard> rng_;
  std::vector<std::string> parameter_names_;
  std::optional<CopyBeforeWrite> parameters_;  // their copies would double the memory
  std::vector<KeptTensor> buffers_;
  std::vector<KeptTensor> constants_;
};

}  // namespace attend
