#include "attend/nn/alibi.h"

#include "attend/ops/alibi.h"
#include "nn/position_scheme.h"

#include <ATen/OpMathType.h>

namespace attend {

AlibiImpl::AlibiImpl(int64_t num_heads) : num_heads(num_heads) {
  reset();
}

void AlibiImpl::reset() {
  slopes_ = Constant(alibi_slopes(num_heads));
}

void AlibiImpl::before_attention(AttentionContext& context) {
  check_self_attention("Alibi", context);
  const auto bias_of =
      [this, dtype = at::toOpMathType(context.query.scalar_type())](const torch::Tensor& offsets) {
        const auto exact = offsets.to(dtype);
        return alibi_bias(exact, slopes_.type_as(exact));  // (..., H, T, S)
      };
  const auto add_all = [this, bias_of](AttentionContext& each) {
    const auto key = offsets_key("alibi_bias", each, num_heads);
    const auto bias = each.state.share(
        key, [&] { return bias_of(key_offsets(each.query, each.key, each.args)); });
    add_to_scores(bias, /*shared=*/true, each);
  };
  context.offset_biases.push_back({bias_of, add_all});
}

void AlibiImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Alibi(num_heads=" << num_heads << ")";
}

AttentionHookFactory alibi() {
  return {"alibi",
          [](const AttentionDims& dims) { return std::make_shared<AlibiImpl>(dims.num_heads); }};
}

}  // namespace attend
