#include "attend/nn/soft_cap.h"

namespace attend {

SoftCapImpl::SoftCapImpl(double cap) : cap(cap) {
  reset();
}

void SoftCapImpl::reset() {
  TORCH_CHECK_VALUE(cap > 0.0, "soft_cap (", cap, ") must be positive");
}

void SoftCapImpl::on_scores(Heads& heads) {
  heads.options.soft_cap = cap;
}

void SoftCapImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SoftCap(cap=" << cap << ")";
}

AttentionPartFactory soft_cap(double cap) {
  return {"soft_cap", [cap](const HeadShape&) { return std::make_shared<SoftCapImpl>(cap); }};
}

}  // namespace attend
