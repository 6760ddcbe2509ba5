#pragma once

#include "export/lifted_sizes.h"

#include <torch/nn/module.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace attend {

/// Error if a traced or exported program is wrong for inputs that the module accepts.
struct WrongForInputs : std::runtime_error {
  WrongForInputs(const std::string& message, const std::vector<torch::Tensor>& wrong)
      : std::runtime_error(message), inputs(wrong) {}
  std::vector<torch::Tensor> inputs;
};

/// Compares traces of a method for its example inputs and for `others`, and describes the first
/// operator call that differs, for example in a constant argument. Ignores the arguments that the
/// exported program computes (`TraceSummary::lifted`). Returns an error for the inputs `others`: "a
/// size was specialized: ..." or, for inputs of the same shapes, "a value was specialized: ...".
/// The message names the operator and the call site. If a constant argument differs, the message
/// also contains both of its values. Returns nullopt if the traces are equal.
std::optional<WrongForInputs> find_specialization(const torch::nn::Module& module,
                                                  const TraceSummary& trace,
                                                  const std::vector<torch::Tensor>& others);

/// Calls the overload above for copies of the example inputs in which one dynamic dimension at a
/// time has another size. Returns the first error that is found, or nullopt. Throws
/// std::runtime_error if the method throws for the resized inputs.
std::optional<WrongForInputs> find_specialization(const torch::nn::Module& module,
                                                  const TraceSummary& trace);

/// Returns one line of the message of `error`, without the stack trace: the last line if the error
/// is from the TorchScript interpreter, otherwise the first line.
std::string short_message(const std::exception& error);

/// Returns an error whose message says that the module rejects `inputs`, although their sizes are
/// allowed. The message ends with the short message of `error`, which the module threw.
std::runtime_error module_rejects(const std::vector<torch::Tensor>& inputs,
                                  const std::exception& error);

/// Returns an error whose message is the short message of `error`, followed by that of
/// `specialization`, which is a result of `find_specialization`.
WrongForInputs with_specialization(const std::exception& error,
                                   const WrongForInputs& specialization);

}  // namespace attend
