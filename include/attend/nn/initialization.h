#pragma once

#include "attend/api.h"

#include <torch/nn/module.h>

#include <cstdint>

namespace attend {

/// Draws the parameters of `module`, a stack of `num_layers` blocks with all that is around it, as
/// GPT-2 does (Radford et al. 2019, section 2.3): Linear and Embedding from N(0, 0.02), and biases
/// zero. The projections that end a residual branch (`out` of each MultiheadAttention, `down` of
/// each FeedForward) are drawn from N(0, 0.02 / sqrt(2 num_layers)): each block adds two branches
/// to the residual stream, and this keeps its variance from growing. Other parameters stay as they
/// are. Throws c10::ValueError if `num_layers` is negative.
///
///     initialize_gpt2(*model, 12);
ATTEND_API void initialize_gpt2(torch::nn::Module& module, int64_t num_layers);

/// Draws the parameters of `module` as PyTorch's Transformer does: each of two dimensions or more
/// uniform within +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010), where attention's query,
/// key and value projections are one matrix if they are stored as one; the biases of
/// MultiheadAttention zero. Other parameters stay as they are: the biases of other Linears keep
/// those of `initialize_bloem`, with which torch::nn makes them.
///
///     initialize_xavier(*block);
ATTEND_API void initialize_xavier(torch::nn::Module& module);

/// Draws the parameters of `module` as Bloem's 'Transformers from scratch' (peterbloem.nl) does,
/// which leaves them as torch::nn makes them: weights and biases of Linear uniform within
/// +-1 / sqrt(columns), Embedding from N(0, 1). Other parameters stay as they are.
///
///     initialize_bloem(*model);
ATTEND_API void initialize_bloem(torch::nn::Module& module);

}  // namespace attend
