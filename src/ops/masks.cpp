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

/// Reshapes `tokens` (B, N) or (N) to broadcast to the scores. `tokens` has one entry per query
/// (`dim` -2) or per key (`dim` -1). The result is (B, 1.., T, 1) or (T, 1) for queries, and
/// (B, 1.., 1, S) or (1, S) for keys. `x`: the queries or the keys; both have the same number of
/// dimensions.
torch::Tensor per_score(const torch::Tensor& tokens, const torch::Tensor& x, int64_t dim) {
  auto aligned = tokens;
  if (tokens.dim() > 1) {
    while (aligned.dim() < x.dim() - 1) aligned = aligned.unsqueeze(-2);  // (B, 1.., N)
  }
  return aligned.unsqueeze(dim == -1 ? -2 : -1);  // (..., 1, S) or (..., T, 1)
}

/// Returns the positions ..., -2, -1, 0 of the N tokens of `x` (..., N, D), relative to the last
/// token.
torch::Tensor positions_from_end(const torch::Tensor& x) {
  return -positions_like(x, -2).flip(0);
}

torch::Tensor first_defined(const torch::Tensor& first, const torch::Tensor& second) {
  return first.defined() ? first : second;
}

torch::Tensor same_segment(const torch::Tensor& query, const AttentionArgs& args) {
  const auto keys = first_defined(args.key_segments, args.segments);
  return per_score(args.segments, query, -2).eq(per_score(keys, query, -1));  // (..., T, S)
}

}  // namespace

torch::Tensor key_offsets(const torch::Tensor& query, const torch::Tensor& key,
                          const AttentionArgs& args) {
  const bool has_positions = args.positions.defined();
  const auto query_positions = has_positions ? args.positions : positions_from_end(query);
  const auto key_positions =
      has_positions ? first_defined(args.key_positions, args.positions) : positions_from_end(key);
  // Computed in int64, because a difference of unsigned integers wraps around.
  return per_score(key_positions, query, -1).to(torch::kLong) -
         per_score(query_positions, query, -2);  // (T, S) or (B, 1.., T, S)
}

torch::Tensor causal_mask(const torch::Tensor& query, const torch::Tensor& key) {
  return key_offsets(query, key) <= 0;  // (T, S)
}

torch::Tensor attention_mask(const torch::Tensor& query, const torch::Tensor& key,
                             const AttentionArgs& args) {
  auto mask = args.mask;
  if (args.key_mask.defined()) {
    mask = combine_masks(mask, per_score(args.key_mask, query, -1));
  }
  if (args.segments.defined()) {
    mask = combine_masks(mask, same_segment(query, args));
  }
  if (args.causal || args.sliding_window > 0) {
    const auto offsets = key_offsets(query, key, args);
    if (args.causal) mask = combine_masks(mask, offsets <= 0);
    if (args.sliding_window > 0) mask = combine_masks(mask, offsets.abs() < args.sliding_window);
  }
  return mask;
}

torch::Tensor combine_masks(const torch::Tensor& first, const torch::Tensor& second) {
  for (const auto& mask : {first, second}) {
    TORCH_CHECK_TYPE(
        !mask.defined() || mask.scalar_type() == torch::kBool || mask.is_floating_point(),
        "mask must be bool (true = may attend) or float (added to the scores), found ",
        mask.scalar_type());
  }
  if (!first.defined()) return second;
  if (!second.defined()) return first;
  const bool both_bool =
      first.scalar_type() == torch::kBool && second.scalar_type() == torch::kBool;
  return both_bool ? first.logical_and(second) : add_masks(first, second);
}

torch::Tensor fully_masked_rows(const torch::Tensor& mask) {
  const auto allowed = mask.scalar_type() == torch::kBool ? mask : mask.ne(kMinusInfinity);
  return allowed.any(-1, /*keepdim=*/true).logical_not();  // (..., T, 1)
}

}  // namespace attend
