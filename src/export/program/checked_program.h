#pragma once

#include "attend/api.h"
#include "program/exported_program.h"
#include "program/runner.h"

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace attend::program {

/// Runs a program and compares its SymInts and the sizes of its tensors with the metadata. Does not
/// compare strides: they do not change the results of a program. Keeps a reference to the program.
class ATTEND_API CheckedProgram {
 public:
  /// `weights`: see `Runner`. A program may mutate them.
  CheckedProgram(const ExportedProgram& program,
                 const std::map<std::string, torch::Tensor>& weights, torch::Device device);

  /// Returns the outputs. Throws std::runtime_error if a SymInt or the size of a dimension differs
  /// from the number or expression in the metadata, or if the number of dimensions of a tensor
  /// differs. The first size that is an unbacked symbol determines the symbol.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs) const;

 private:
  const ExportedProgram& program_;
  Runner runner_;
};

}  // namespace attend::program
