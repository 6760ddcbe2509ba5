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

void AlibiImpl::on_scores(Heads& heads) {
  check_one_sequence("Alibi", heads);
  const auto offsets = key_offsets(heads.query, heads.key, heads.args)
                           .to(at::toOpMathType(heads.query.scalar_type()));
  add_to_scores(alibi_bias(offsets, slopes_.type_as(offsets)), heads);
}

void AlibiImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Alibi(num_heads=" << num_heads << ")";
}

AttentionPartFactory alibi() {
  return {"alibi",
          [](const HeadShape& shape) { return std::make_shared<AlibiImpl>(shape.num_heads); }};
}

}  // namespace attend
