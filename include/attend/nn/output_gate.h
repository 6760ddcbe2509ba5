#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/nn/attention_hook.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Number of gates of `OutputGate`.
enum class GateWidth {
  head,     ///< one gate per head
  element,  ///< one gate per element of the output of each head
};

template <>
struct EnumNames<GateWidth> {
  static constexpr std::array<std::string_view, 2> names{"head", "element"};
};

/// Attention hook for an output gate (Qiu et al. 2025): projects the input of the query projection
/// to logits, and multiplies the output of each head by the sigmoid of the logits. For each token,
/// there is one logit per head or, for `GateWidth::element`, one per element of each head's output
/// (Qwen3-Next).
///
/// State dict: `projection`, a Linear without bias: (H, E) or, for `GateWidth::element`, (H*D, E).
///
///     MultiheadAttentionOptions(64, 4).add(output_gate());
class ATTEND_API OutputGateImpl : public Cloneable<OutputGateImpl>, public AttentionHook {
 public:
  /// Throws c10::ValueError if a dimension is not positive.
  OutputGateImpl(const AttentionDims& dims, GateWidth width);

  /// Returns `output` times the gates.
  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  AttentionDims dims;                     ///< dimensions of the attention
  GateWidth width;                        ///< one gate per head or per element
  torch::nn::Linear projection{nullptr};  ///< logits of the gates
};
TORCH_MODULE(OutputGate);

/// Returns a factory of `OutputGate`. The name of the submodule is `output_gate`.
///
///     options.attention().add(output_gate(GateWidth::element));
ATTEND_API AttentionHookFactory output_gate(GateWidth width = GateWidth::head);

}  // namespace attend
