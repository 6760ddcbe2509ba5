#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"

#include <cstdint>

namespace attend {

/// Initializes `module` like GPT-2 (Radford et al. 2019, section 2.3): Linear and Embedding weights
/// are normal with standard deviation 0.02. Biases of Linear and the row `padding_idx` of Embedding
/// weights are zero. `num_layers`: number of blocks of the model. The last projections of the
/// residual branches (`out` of each MultiheadAttention, `down` of each FeedForward) have standard
/// deviation `0.02 / sqrt(2 * num_layers)`, so that the variance of the residual stream does not
/// grow with depth. Other parameters are unchanged. Throws c10::ValueError if `num_layers` is
/// negative.
///
///     initialize_gpt2(model, 12);
ATTEND_API void initialize_gpt2(ModuleRef module, int64_t num_layers);

/// Initializes `module` like torch.nn.Transformer: parameters of two or more dimensions are uniform
/// in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010); the projection `qkv` of
/// MultiheadAttention counts as one matrix. Biases in MultiheadAttention are zero. Other
/// parameters, such as the biases of other Linears, are unchanged.
///
///     initialize_xavier(block);
ATTEND_API void initialize_xavier(ModuleRef module);

/// Initializes `module` with the defaults of torch::nn, like Bloem's 'Transformers from scratch'
/// (peterbloem.nl): weights and biases of Linear are uniform in +-1 / sqrt(in_features). Embedding
/// weights are normal with standard deviation 1. Other parameters are unchanged.
///
///     initialize_bloem(model);
ATTEND_API void initialize_bloem(ModuleRef module);

}  // namespace attend
