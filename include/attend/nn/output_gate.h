#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/nn/attention_hook.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// What a gate lets through or not.
enum class GateWidth {
  head,     ///< a head's result as a whole
  element,  ///< each element of it
};

template <>
struct EnumNames<GateWidth> {
  static constexpr std::array<std::string_view, 2> names{"head", "element"};
};

/// Multiplies each head's result by a sigmoid of a projection of attention's input, so that a head
/// can have nothing to say (Qiu et al. 2025; Qwen3-Next has a gate for each element).
///
/// State dict: `projection`, a Linear without bias: (H, E) or, for each element, (H*D, E).
///
///     OutputGate gate(AttentionDims{64, 4, 4, 16}, GateWidth::head);
class ATTEND_API OutputGateImpl : public torch::nn::Cloneable<OutputGateImpl>,
                                  public AttentionHook {
 public:
  OutputGateImpl(const AttentionDims& shape, GateWidth width);

  torch::Tensor after_attention(const AttentionContext& context,
                                const torch::Tensor& output) override;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  AttentionDims shape;
  GateWidth width;
  torch::nn::Linear projection{nullptr};
};
TORCH_MODULE(OutputGate);

/// Makes an `OutputGate`: `.add(output_gate(GateWidth::element))`.
ATTEND_API AttentionHookFactory output_gate(GateWidth width = GateWidth::head);

}  // namespace attend
