#pragma once

#include "explain/explanation.h"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// Queries, keys and values of a head.
struct HeadVectors {
  torch::Tensor queries;  ///< Q (T, D)
  torch::Tensor keys;     ///< K (S, D)
  torch::Tensor values;   ///< V (S, D)
};

/// An attention to explain: what it reads, and its options.
struct AttentionInputs {
  std::vector<std::string> tokens;       ///< T different labels, of the queries
  torch::Tensor inputs = {};             ///< X (T, E); undefined if Q, K and V are given
  std::string input = "X";               ///< symbol of `inputs`
  torch::Tensor memory = {};             ///< M (S, E), the input of K and V in cross-attention;
                                         ///< undefined in self-attention, where it is `inputs`
  std::optional<Projection> query = {};  ///< Q = X; or X W_Q + b_Q if set
  std::optional<Projection> key = {};    ///< K, likewise
  std::optional<Projection> value = {};  ///< V, likewise
  torch::Tensor queries = {};            ///< Q (T, D), if there are no inputs
  torch::Tensor keys = {};               ///< K (T, D), if there are no inputs
  torch::Tensor values = {};             ///< V (T, D), if there are no inputs
  std::optional<double> divisor = {};    ///< the scores are divided by this number; not if unset
  std::string divisor_text = {};         ///< such as "sqrt(2)"
  torch::Tensor bias = {};               ///< (T, T), added to the scores after the scaling
  double soft_cap = 0.0;                 ///< as in `ScoreOptions`; 0 = none
  torch::Tensor allowed = {};            ///< bool (T, T): true = may attend; undefined = all true
  torch::Tensor weights = {};            ///< A (T, T), if the head has an attention sink; otherwise
                                         ///< the softmax of the scores
  std::string prefix = {};               ///< beginning of the titles of the steps
  std::vector<std::string> sources = {};  ///< S labels of the keys in cross-attention, where T keys
                                          ///< become S; empty in self-attention
};

/// Appends the steps of the projections. The worked numbers are those of the token number `row` or,
/// of a memory, of its first token.
HeadVectors add_projection_steps(const AttentionInputs& example, int64_t row,
                                 Explanation& explanation);

/// Appends the steps that follow the projections: scores, scaling, soft cap, bias, mask, softmax
/// and weighted sum. The worked numbers are those of the token number `row`. Returns the output (T,
/// D).
torch::Tensor add_score_steps(const AttentionInputs& example, const HeadVectors& vectors,
                              int64_t row, Explanation& explanation);

/// Appends the steps of an attention: inputs, projections and scores. Returns the output (T, D).
torch::Tensor add_attention_steps(const AttentionInputs& example, int64_t row,
                                  Explanation& explanation);

}  // namespace attend::app
