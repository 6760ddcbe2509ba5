#include "attend/nn/sliding_window.h"

#include "nn/checks.h"
#include "nn/position_scheme.h"

#include <algorithm>

namespace attend {

SlidingWindowImpl::SlidingWindowImpl(int64_t sliding_window) : sliding_window(sliding_window) {
  reset();
}

void SlidingWindowImpl::reset() {
  check_positive("sliding_window", sliding_window);
}

void SlidingWindowImpl::before_attention(AttentionContext& context) {
  check_self_attention("SlidingWindow", context);
  auto& window = context.args.sliding_window;
  window = window == 0 ? sliding_window : std::min(window, sliding_window);
}

void SlidingWindowImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SlidingWindow(sliding_window=" << sliding_window << ")";
}

AttentionHookFactory sliding_window(int64_t sliding_window) {
  return {"sliding_window", [sliding_window](const AttentionDims&) {
            return std::make_shared<SlidingWindowImpl>(sliding_window);
          }};
}

}  // namespace attend
