#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"
#include "attend/ops/linear.h"

namespace attend {

/// Calls `prepare_weight` for the weights of all torch::nn::Linear submodules of `module`, and for
/// the tied output weights of language models and Seq2Seq models. Returns the number of copies.
/// Inference on a CPU is then faster, above all the generation of single tokens, which takes as
/// long as reading all weights from memory.
///
/// Linear layers that are called through `apply_linear` use the copies, as in all modules of this
/// library. (Exceptions: the router of MixtureOfExperts, and the joint weight `qkv` in
/// cross-attention.) In your own modules, write `apply_linear(x, fc)` instead of
/// `fc(x)`.
///
/// The copies need memory in addition to the weights: as much as the weights (`packed`), or 1/2
/// (`bf16`), 1/4 (`int8`) or 1/7 (`int4`) of float32 weights. Parameters, clones and saved files do
/// not change. A forward pass with gradients enabled ends the use of the copies, and so do changes
/// of the weights: create a torch::NoGradGuard before each forward pass. (`generate` does so.) Of
/// writes through `data()` or a data pointer, only those that change a sample of a weight are
/// noticed, as an average of weights does; see `prepare_weight`. After other such writes, some
/// products use the copy and some the changed weight, until `prepare_for_inference` is called
/// again. No other thread may use the module during the call.
///
///     prepare_for_inference(model, WeightFormat::int8);
///     auto sequence = generate(model, {5, 7}, {.max_new_tokens = 64});
ATTEND_API int64_t prepare_for_inference(ModuleRef module,
                                         WeightFormat format = WeightFormat::packed);

}  // namespace attend
