#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Gradient checkpointing, like torch.utils.checkpoint (Chen et al. 2016): returns `function(x)`
/// without storing activations, and calls `function` again in the backward pass. This saves memory
/// at the cost of a second forward pass.
///
/// `parameters`: the leaf tensors that `function` reads besides `x`; frozen, repeated and unused
/// parameters are allowed. If `function` reads tensors that are not leaves, pass them as
/// `arguments` of the overload below: otherwise they get no gradient, and in-place changes of them
/// are not detected. The second call runs with the autocast and RNG states of the first call. The
/// states are saved for the CPU and for each device with an argument or a trainable parameter.
/// Objects that `function` refers to must exist until the backward pass, so capture module holders
/// by value. Do not change the training mode of captured modules before the backward pass. Tensor
/// hooks of a parameter (`register_hook`) are called twice. If grad mode is disabled, `function` is
/// called only once.
///
/// Throws c10::ValueError if a parameter is not a leaf. The backward pass throws
/// c10::NotImplementedError for create_graph = true (double backward), and c10::Error if an
/// argument or a trainable parameter has been modified in place, or if a trainable parameter has
/// been frozen since the forward pass.
///
///     const auto forward = [block](const torch::Tensor& h) mutable { return block(h); };
///     x = checkpoint(forward, x, block->parameters());
ATTEND_API torch::Tensor checkpoint(
    const std::function<torch::Tensor(const torch::Tensor&)>& function, const torch::Tensor& x,
    const std::vector<torch::Tensor>& parameters);

/// As above, for a function of several tensors, `arguments`. All arguments that require a gradient
/// get a gradient. Arguments may be undefined tensors. Throws c10::ValueError if `arguments` is
/// empty.
///
///     x = checkpoint(forward, {x, memory, mask}, block->parameters());
ATTEND_API torch::Tensor checkpoint(
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& function,
    const std::vector<torch::Tensor>& arguments, const std::vector<torch::Tensor>& parameters);

/// As above, for a function that returns several tensors. All returned tensors must be defined, and
/// none of them may be one of the `parameters`. Both calls of the function must return the same
/// number of tensors.
///
///     const auto both = [](const std::vector<torch::Tensor>& in) {
///       return std::vector<torch::Tensor>{in[0].exp(), in[0].sin()};
///     };
///     const auto outputs = checkpoint(both, std::vector<torch::Tensor>{x}, {});
ATTEND_API std::vector<torch::Tensor> checkpoint(
    const std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>& function,
    const std::vector<torch::Tensor>& arguments, const std::vector<torch::Tensor>& parameters);

}  // namespace attend
