#include "attend/nn/alibi.h"

#include "attend/ops/alibi.h"
#include "nn/position_scheme.h"
#include "ops/math_type.h"

namespace attend {

AlibiImpl::AlibiImpl(int64_t num_heads) : num_heads(num_heads) {
  reset();
}

void AlibiImpl::reset() {
  slopes_ = Constant(alibi_slopes(num_heads));
}

void AlibiImpl::before_attention(AttentionContext& context) {
  check_self_attention("Alibi", context);
  context.offset_biases.push_back(this);
}

torch::Tensor AlibiImpl::bias_of(const torch::Tensor& offsets, const AttentionContext& context) {
  const auto exact = to_math_type(offsets, context.query);
  return alibi_bias(exact, slopes_.type_as(exact));  // (..., H, T, S)
}

void AlibiImpl::add_bias(AttentionContext& context) {
  const auto key = offsets_key("alibi_bias", context, num_heads);
  const auto bias = context.state.share(&SharedTensors::offsets, key, [&] {
    return bias_of(key_offsets(context.query, context.key, context.args), context);
  });
  add_to_scores(bias, /*shared=*/true, context);
}

void AlibiImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Alibi(num_heads=" << num_heads << ")";
}

AttentionHookFactory alibi() {
  return {"alibi",
          [](const AttentionDims& dims) { return std::make_shared<AlibiImpl>(dims.num_heads); }};
}

}  // namespace attend
