#pragma once

#include "attend/api.h"
#include "program/allowed_operators.h"
#include "program/exported_program.h"

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace attend::program {

/// Interpreter of a program. The constructor resolves names to slots (indices of values) and each
/// `Node::target` to an operator, and throws for programs that cannot run.
class ATTEND_API Runner {
 public:
  /// `weights` contains the parameters, buffers and constants by `Input::target`. Throws InputError
  /// if a weight is missing, or if the program is invalid or calls an operator that is not allowed.
  /// For an error in a node, the message names the node's target.
  Runner(const ExportedProgram& program, const std::map<std::string, torch::Tensor>& weights,
         torch::Device device, const AllowedOperators& allowed);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Called with the name and value of each tensor and number that an operator returns.
  using Recorder = std::function<void(const std::string& name, const c10::IValue& value)>;

  /// Runs the program and returns its outputs. Does not check the inputs; see InputChecks.
  std::vector<torch::Tensor> run(const std::vector<torch::Tensor>& inputs,
                                 const Recorder& recorder = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::program
