#pragma once

#include "attend/export/export_options.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace attend {

/// The first operation that is called with another number for other inputs, which a trace therefore
/// freezes: "a size was frozen: " or, for inputs of the same shapes, "a value was frozen: ", what
/// it is called with, and which line of which function calls it. Nothing if there is none.
std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<torch::Tensor>& others);

/// The same for any of the dynamic dimensions, one after the other a little larger.
std::optional<std::string> find_frozen_size(const torch::nn::Module& module,
                                            const Forward& function,
                                            const std::vector<torch::Tensor>& inputs,
                                            const std::vector<DynamicDimension>& dynamic);

/// What went wrong, in a line: without the trace of calls that LibTorch's errors end with, or with
/// which TorchScript's begin.
std::string reason_of(const std::exception& error);

/// That, and what `find_frozen_size` found: the reason.
std::runtime_error explained(const std::exception& error, const std::string& frozen);

/// Throws std::runtime_error if a traced method freezes a size that a recurrent layer would run
/// with: on a CPU these read beyond a state that is too small, where other operators throw.
void refuse_sizes_frozen_in_recurrent_layers(const torch::jit::Module& scripted,
                                             const std::string& method,
                                             const torch::nn::Module& module,
                                             const Forward& function,
                                             const std::vector<torch::Tensor>& inputs,
                                             const std::vector<DynamicDimension>& dynamic);

}  // namespace attend
