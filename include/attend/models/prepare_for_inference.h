#pragma once

#include "attend/api.h"
#include "attend/ops/linear.h"

#include <torch/nn/module.h>

namespace attend {

/// Calls `prepare_weight` for the weights of all torch::nn::Linear submodules of `module`, and for
/// the tied output weights of language models and Seq2Seq models. Inference on a CPU is then
/// faster, above all the generation of single tokens, which takes as long as reading all weights
/// from memory. The copies need as much memory as the weights (`original`), or about 1/2 (`bf16`),
/// 1/4
/// (`int8`) or 1/6 (`int4`) of the memory of float32 weights.
///
/// With `WeightFormat::original`, results differ by rounding errors. docs/performance.md contains
/// the differences of the other formats. Parameters, their gradients and saved files do not change.
/// The copies are no longer used after a training step, or if the weights change or are moved:
/// call the function again.
///
///     prepare_for_inference(*model, WeightFormat::int8);
///     auto sequence = generate(model, {5, 7}, {.max_new_tokens = 64});
ATTEND_API void prepare_for_inference(torch::nn::Module& module,
                                      WeightFormat format = WeightFormat::original);

}  // namespace attend
