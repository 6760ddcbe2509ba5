#include "attend/nn/output_gate.h"

#include "attend/nn/linear.h"
#include "nn/checks.h"
#include "nn/new_layers.h"

namespace attend {

OutputGateImpl::OutputGateImpl(const AttentionDims& dims, GateWidth width)
    : dims(dims), width(width) {
  reset();
}

void OutputGateImpl::reset() {
  check_positive("embed_dim", dims.embed_dim);
  check_positive("num_heads", dims.num_heads);
  check_positive("head_dim", dims.head_dim);
  const int64_t gates = dims.num_heads * (width == GateWidth::element ? dims.head_dim : 1);
  use("projection", &OutputGateImpl::projection,
      new_linear(torch::nn::LinearOptions(dims.embed_dim, gates).bias(false)));
}

torch::Tensor OutputGateImpl::after_attention(const AttentionContext& context,
                                              const torch::Tensor& output) {
  const auto gates =
      torch::sigmoid(apply_linear(context.input, projection));  // (..., T, H * (1 or D))
  const auto per_head =
      gates.unflatten(-1, {dims.num_heads, -1}).transpose(-3, -2);  // (..., H, T, 1 or D)
  return output * per_head;
}

void OutputGateImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::OutputGate(width=" << to_string(width) << ")";
}

AttentionHookFactory output_gate(GateWidth width) {
  return {"output_gate", [width](const AttentionDims& dims) {
            return std::make_shared<OutputGateImpl>(dims, width);
          }};
}

}  // namespace attend
