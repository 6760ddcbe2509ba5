#pragma once

#include "attend/nn/multihead_attention.h"
#include "attend/nn/output_gate.h"
#include "explain/attention_steps.h"
#include "explain/block_steps.h"

namespace attend::app {

/// Sets the projections of the head number `head`, from 0, of `attention`, whose projections are
/// one Linear (`qkv`).
void set_projections(const MultiheadAttention& attention, int64_t head, AttentionInputs& example);

/// What the hooks of an attention need besides queries, keys and values.
struct HookInputs {
  int64_t kv_head = 0;              ///< number of the key-value head, from 0
  torch::Tensor first_values = {};  ///< V (S, D) of the first layer; undefined in the first layer
  torch::Tensor key_mask = {};      ///< bool (S): true = may attend; undefined = all true
};

/// Appends the steps of the hooks of `attention` that change queries, keys and values: norms,
/// rotations by the position, the values of the first layer and smeared keys. `vectors` are those
/// of the projections. Returns the changed ones.
HeadVectors add_hook_steps(const AttentionInputs& example, const MultiheadAttention& attention,
                           const HookInputs& inputs, HeadVectors vectors, int64_t row,
                           Explanation& explanation);

/// Appends the step of a gate of the head number `head`, from 0. `x`: input of the attention.
/// `output`: Y (T, D). Returns Y times the gate.
torch::Tensor add_gate_step(const OutputGateImpl& gate, int64_t head, const TokenMatrix& x,
                            const torch::Tensor& output, const std::string& title,
                            TokenSteps& steps);

}  // namespace attend::app
