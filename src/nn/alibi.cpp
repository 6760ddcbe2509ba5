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
  check_one_sequence("Alibi", context);
  const auto offsets = key_offsets(context.query, context.key, context.args)
                           .to(at::toOpMathType(context.query.scalar_type()));
  add_to_scores(alibi_bias(offsets, slopes_.type_as(offsets)), context);
}

void AlibiImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Alibi(num_heads=" << num_heads << ")";
}

AttentionHookFactory alibi() {
  return {"alibi",
          [](const AttentionDims& shape) { return std::make_shared<AlibiImpl>(shape.num_heads); }};
}

}  // namespace attend
