#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Runs `function` on `x` without keeping what its gradient needs, and runs it again in the
/// backward pass to get that: a deep stack then keeps one tensor for each block, at the price of a
/// second forward pass (Chen et al. 2016).
///
/// `parameters`: the leaves that `function` reads besides `x`; frozen, repeated and unused ones do
/// no harm. Anything else that it reads gets no gradient. The second run draws the same random
/// numbers (of the CPU and of the device of `x`), under the same autocast, and leaves the
/// generators as they were. What `function` refers to must live, and keep its training mode, until
/// then; hooks on parameters see each gradient twice. Without grad mode, this just calls
/// `function`.
///
/// Returns what `function` returns. Throws c10::ValueError if a parameter is not a leaf. The
/// backward pass throws c10::NotImplementedError if it is to be differentiated itself
/// (create_graph), and c10::Error if `x` or a parameter has been changed in place since.
///
///     const auto forward = [block](const torch::Tensor& h) mutable { return block(h); };
///     x = checkpoint(forward, x, block->parameters());
ATTEND_API torch::Tensor checkpoint(
    const std::function<torch::Tensor(const torch::Tensor&)>& function, const torch::Tensor& x,
    const std::vector<torch::Tensor>& parameters);

/// The same for a function of several tensors, each of which gets its gradient.
///
///     x = checkpoint(forward, {x, memory}, block->parameters());
ATTEND_API torch::Tensor checkpoint(
    const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& function,
    const std::vector<torch::Tensor>& arguments, const std::vector<torch::Tensor>& parameters);

}  // namespace attend
