#include "attend/nn/attention_sinks.h"

#include "nn/checks.h"

namespace attend {

AttentionSinksImpl::AttentionSinksImpl(int64_t num_heads) : num_heads(num_heads) {
  reset();
}

void AttentionSinksImpl::reset() {
  check_positive("num_heads", num_heads);
  logits = register_parameter("logits", torch::zeros({num_heads}));
}

void AttentionSinksImpl::before_attention(AttentionContext& context) {
  context.options.sinks = logits;
}

void AttentionSinksImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::AttentionSinks(num_heads=" << num_heads << ")";
}

AttentionHookFactory attention_sinks() {
  return {"attention_sinks", [](const AttentionDims& dims) {
            return std::make_shared<AttentionSinksImpl>(dims.num_heads);
          }};
}

}  // namespace attend
