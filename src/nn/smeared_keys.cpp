#include "attend/nn/smeared_keys.h"

#include "attend/nn/kv_cache.h"
#include "nn/checks.h"

namespace attend {
namespace {

/// Returns the previous key of each key. The keys must be in the order of their positions. The
/// first key counts as its own previous key, so `before_attention` leaves it unchanged.
PreviousKeys previous_in_order(const AttentionContext& context) {
  PreviousKeys previous{(positions_like(context.key, -2) - 1).clamp_min(0), {}};  // (S)
  const auto& args = context.args;
  if (args.key_mask.defined()) previous.exist = args.key_mask.index_select(-1, previous.index);
  const auto& segments = args.key_segments.defined() ? args.key_segments : args.segments;
  if (segments.defined()) {
    const auto same = segments == segments.index_select(-1, previous.index);
    previous.exist = previous.exist.defined() ? previous.exist.logical_and(same) : same;
  }
  return previous;
}

/// Returns the previous key of each key in a cache that is not aligned; see `KvCache::is_aligned`.
PreviousKeys previous_by_position(const AttentionContext& context) {
  const auto& mask = context.args.key_mask;
  // Masked keys get position -2. They are never found, because all `wanted` positions are at least
  // -1.
  const auto positions = torch::where(mask, context.args.key_positions, -2);  // (B, S) or (S)
  // Position of the previous key; -1 = none.
  const auto wanted = torch::where(positions > 0, positions - 1, -1);
  // A binary search avoids the (S, S) matrix of all pairs of keys.
  const auto [sorted, order] = positions.sort(-1);
  const auto found = torch::searchsorted(sorted, wanted).clamp_max(positions.size(-1) - 1);
  const auto exist = sorted.gather(-1, found) == wanted;
  return {order.gather(-1, found), exist};
}

PreviousKeys shared_previous_keys(const AttentionContext& context) {
  const auto& args = context.args;
  const SharedKey key("previous_keys", context.key,
                      {args.key_mask, args.segments, args.key_segments, args.key_positions},
                      context.key.size(-2), context.cross);
  const bool in_slots = context.state.cache != nullptr && args.key_positions.defined();
  return context.state.share(&SharedTensors::previous_keys, key, [&] {
    return in_slots ? previous_by_position(context) : previous_in_order(context);
  });
}

}  // namespace

SmearedKeysImpl::SmearedKeysImpl(int64_t num_kv_heads) : num_kv_heads(num_kv_heads) {
  reset();
}

void SmearedKeysImpl::reset() {
  check_positive("num_kv_heads", num_kv_heads);
  logits = register_parameter("logits", torch::zeros({num_kv_heads}));
}

void SmearedKeysImpl::before_attention(AttentionContext& context) {
  const auto [index, exist] = shared_previous_keys(context);
  const auto previous =
      index.dim() == 1
          ? context.key.index_select(-2, index)
          : context.key.gather(-2, index.unsqueeze(-2).unsqueeze(-1).expand_as(context.key));
  auto weight = torch::sigmoid(logits).view({-1, 1, 1}).type_as(context.key);  // (G, 1, 1)
  if (exist.defined()) {
    weight = weight * exist.unsqueeze(-1).unsqueeze(-3).type_as(context.key);  // (..., G, S, 1)
  }
  context.key = torch::lerp(context.key, previous, weight);  // (..., G, S, D)
}

torch::Tensor SmearedKeysImpl::after_attention(const AttentionContext& context,
                                               const torch::Tensor& output) {
  // The window is checked here and not in before_attention, because another hook may set it there.
  if (context.state.cache == nullptr) return output;
  const auto window = context.args.sliding_window;
  const auto cached = context.state.cache->sliding_window();
  TORCH_CHECK_VALUE(cached == 0 || cached > window, "the KvCache's sliding_window (", cached,
                    ") must be at least ", window + 1,
                    ": smeared_keys needs the key before the sliding_window of the attention (",
                    window, ")");
  return output;
}

void SmearedKeysImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SmearedKeys(num_kv_heads=" << num_kv_heads << ")";
}

AttentionHookFactory smeared_keys() {
  return {"smeared_keys", [](const AttentionDims& dims) {
            return std::make_shared<SmearedKeysImpl>(dims.num_kv_heads);
          }};
}

}  // namespace attend
