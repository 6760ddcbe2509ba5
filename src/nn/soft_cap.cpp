#include "attend/nn/soft_cap.h"

#include <cmath>

namespace attend {

SoftCapImpl::SoftCapImpl(double soft_cap) : soft_cap(soft_cap) {
  reset();
}

void SoftCapImpl::reset() {
  TORCH_CHECK_VALUE(soft_cap > 0.0 && std::isfinite(soft_cap), "soft_cap (", soft_cap,
                    ") must be positive and finite");
}

void SoftCapImpl::before_attention(AttentionContext& context) {
  context.options.soft_cap = soft_cap;
}

void SoftCapImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SoftCap(soft_cap=" << soft_cap << ")";
}

AttentionHookFactory soft_cap(double soft_cap) {
  return {"soft_cap",
          [soft_cap](const AttentionDims&) { return std::make_shared<SoftCapImpl>(soft_cap); }};
}

}  // namespace attend
