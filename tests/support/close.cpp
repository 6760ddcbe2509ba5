#include "support/close.h"

#include <cmath>
#include <limits>

namespace attend {

testing::AssertionResult close(const torch::Tensor& actual, const torch::Tensor& expected,
                               double tolerance) {
  if (!actual.defined() || !expected.defined()) {
    return testing::AssertionFailure() << "a tensor is undefined";
  }
  if (actual.sizes() != expected.sizes()) {
    return testing::AssertionFailure()
           << "found shape " << actual.sizes() << ", expected " << expected.sizes();
  }
  if (actual.numel() == 0) return testing::AssertionSuccess();
  const auto found = actual.detach().to(torch::kDouble).contiguous().reshape(-1);
  const auto wanted = expected.detach().to(torch::kDouble).contiguous().reshape(-1);
  auto difference = (found - wanted).abs().masked_fill(found.eq(wanted), 0.0);
  difference = difference.masked_fill(difference.isnan(), INFINITY);
  const auto worst = difference.argmax().item<int64_t>();
  const auto greatest = difference[worst].item<double>();
  if (greatest <= tolerance) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "largest difference " << greatest << " (tolerance " << tolerance << ") at element "
         << worst << " of " << actual.sizes() << ": found " << found[worst].item<double>()
         << ", expected " << wanted[worst].item<double>();
}

}  // namespace attend
