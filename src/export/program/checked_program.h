#pragma once

#include "attend/api.h"
#include "export/program/traced_program.h"
#include "pt2/program/runner.h"

#include <torch/types.h>

#include <vector>

namespace attend::program {

/// Runs a traced program and compares the sizes of its tensors with the metadata. Keeps a reference
/// to the program. Copies the weights, since a later forward pass may mutate them.
class ATTEND_API CheckedProgram {
 public:
  CheckedProgram(const TracedProgram& traced, torch::Device device);

  /// Returns the outputs. Throws std::runtime_error if the size of a tensor differs from the size
  /// or expression in the metadata. Does not check sizes with a placeholder (see `is_unknown`).
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs) const;

 private:
  const ExportedProgram& program_;
  Runner runner_;
};

}  // namespace attend::program
