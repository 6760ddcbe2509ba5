#include "attend/nn/sliding_window.h"

#include "nn/checks.h"
#include "nn/position_scheme.h"

#include <algorithm>

namespace attend {

SlidingWindowImpl::SlidingWindowImpl(int64_t size) : size(size) {
  reset();
}

void SlidingWindowImpl::reset() {
  check_positive("sliding_window", size);
}

void SlidingWindowImpl::on_scores(Heads& heads) {
  check_one_sequence("SlidingWindow", heads);
  const int64_t of_call = heads.args.window;
  heads.args.window = of_call == 0 ? size : std::min(of_call, size);
}

void SlidingWindowImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SlidingWindow(size=" << size << ")";
}

AttentionPartFactory sliding_window(int64_t size) {
  return {"sliding_window",
          [size](const HeadShape&) { return std::make_shared<SlidingWindowImpl>(size); }};
}

}  // namespace attend
