#pragma once

#include "attend/nn/residual.h"
#include "explain/explanation.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <string>
#include <vector>

namespace attend::app {

/// A matrix with one row for each token, and its symbol.
struct TokenMatrix {
  std::string symbol;
  torch::Tensor values;  ///< (T, E)
};

/// A residual branch of a block: x + f(x), with norms.
struct ResidualBranch {
  std::string title;  ///< beginning of the titles of its steps
  std::string name;   ///< suffix of the names of its modules in the block: "1", "_cross" or "2"
  std::string sum;    ///< symbol of x + f(x)
  std::function<TokenMatrix(const TokenMatrix&)> function;  ///< f; appends its own steps
};

/// Appends the steps of a TransformerBlock or DecoderBlock: the norms, scales and sums of its
/// branches, and the steps of their functions. Returns the output of the block.
TokenMatrix add_block_steps(const torch::nn::Module& block, NormOrder order,
                            const std::vector<ResidualBranch>& branches, TokenMatrix x,
                            TokenSteps& steps);

/// Appends the steps of joined heads and output projection. `heads`: H outputs (T, D).
TokenMatrix add_joined_heads_steps(const std::vector<torch::Tensor>& heads,
                                   const torch::nn::Linear& out, const std::string& title,
                                   TokenSteps& steps);

/// Appends the steps of a FeedForward or MixtureOfExperts.
TokenMatrix add_feed_forward_steps(torch::nn::AnyModule& feed_forward, const TokenMatrix& x,
                                   const std::string& title, TokenSteps& steps);

/// Appends the step of a LayerNorm, RMSNorm or L2Norm. `symbol`: that of the result. `column`:
/// prefix of its columns, by default `symbol`.
TokenMatrix add_norm_step(torch::nn::Module& norm, const TokenMatrix& x, const std::string& symbol,
                          const std::string& title, TokenSteps& steps, std::string column = "");

}  // namespace attend::app
