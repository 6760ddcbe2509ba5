#include "support/optimized_forward.h"

#include <bit>

// Outside of the namespace attend, as functions of users.
namespace {

template <typename Function>
attend::Forward with_first_input(const Function& function) {
  return [function](const std::vector<torch::Tensor>& in) -> attend::Outputs {
    return function(in[0]);
  };
}

}  // namespace

attend::Forward attend::optimized_forward() {
  return with_first_input([](const torch::Tensor& x) {
    return torch::zeros({std::popcount(static_cast<uint64_t>(x.size(1)))});
  });
}
