#include "attend/ops/masks.h"

#include "attend/ops/positions.h"

#include <limits>

namespace attend {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

torch::Tensor add_masks(const torch::Tensor& first, const torch::Tensor& second) {
  if (first.scalar_type() != torch::kBool && second.scalar_type() != torch::kBool) {
    return first + second;
  }
  const bool first_is_bool = first.scalar_type() == torch::kBool;
  const auto& allowed = first_is_bool ? first : second;
  const auto& scores = first_is_bool ? second : first;
  return torch::where(allowed, scores, kMinusInfinity);
}

}  // namespace

torch::Tensor causal_mask(const torch::Tensor& query, const torch::Tensor& key) {
  const auto steps_after_query = index_along(query, -2).flip(0).unsqueeze(1);  // (T, 1)
  const auto steps_after_key = index_along(key, -2).flip(0).unsqueeze(0);      // (1, S)
  return steps_after_key >= steps_after_query;                                 // (T, S)
}

torch::Tensor combine_masks(const torch::Tensor& first, const torch::Tensor& second) {
  if (!first.defined()) return second;
  if (!second.defined()) return first;
  const bool both_bool =
      first.scalar_type() == torch::kBool && second.scalar_type() == torch::kBool;
  return both_bool ? first.logical_and(second) : add_masks(first, second);
}

torch::Tensor rows_without_keys(const torch::Tensor& mask) {
  const auto allowed = mask.scalar_type() == torch::kBool ? mask : mask.ne(kMinusInfinity);
  return allowed.any(-1, /*keepdim=*/true).logical_not();  // (..., T, 1)
}

}  // namespace attend
