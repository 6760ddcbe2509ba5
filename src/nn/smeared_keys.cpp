#include "attend/nn/smeared_keys.h"

#include "nn/checks.h"

namespace attend {
namespace {

/// What stands one step before along `dim`; at the first step, what stands there.
torch::Tensor step_before(const torch::Tensor& x, int64_t dim) {
  return x.index_select(dim, (positions_like(x, dim) - 1).clamp_min(0));
}

/// The keys before those of a call, and where there are any.
struct KeysBefore {
  torch::Tensor keys;   ///< (..., G, S, D)
  torch::Tensor exist;  ///< (B, S), or (S) without a batch; undefined = everywhere
};

KeysBefore in_order(const AttentionContext& context) {
  KeysBefore before{step_before(context.key, -2), {}};
  const auto& args = context.args;
  if (args.key_mask.defined()) before.exist = step_before(args.key_mask, -1);
  const auto& documents = args.key_segments.defined() ? args.key_segments : args.segments;
  if (documents.defined()) {
    const auto same = documents == step_before(documents, -1);
    before.exist = before.exist.defined() ? before.exist.logical_and(same) : same;
  }
  return before;
}

/// A cache whose rows differ in length, or that has dropped tokens, keeps keys in slots of its own
/// order: the one before is that of the position before.
KeysBefore by_position(const AttentionContext& context) {
  const auto& positions = context.args.key_positions;  // (B, S)
  const auto& valid = context.args.key_mask;
  const auto matches = (positions.unsqueeze(-1) - 1 == positions.unsqueeze(-2))  // (B, S, S)
                           .logical_and(valid.unsqueeze(-2));
  const auto exist = matches.any(-1);  // (B, S)
  TORCH_CHECK_VALUE(!valid.logical_and(positions > 0).logical_and(~exist).any().item<bool>(),
                    "smeared_keys needs the key before each: found a cache that has dropped some");
  const auto slots = matches.to(torch::kLong).argmax(-1);                       // (B, S)
  const auto index = slots.unsqueeze(-2).unsqueeze(-1).expand_as(context.key);  // (B, G, S, D)
  return {context.key.gather(-2, index), exist};
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
  const bool scattered = context.state.cache != nullptr && context.args.key_positions.defined();
  const auto before = scattered ? by_position(context) : in_order(context);
  auto share = torch::sigmoid(logits).view({-1, 1, 1}).type_as(context.key);  // (G, 1, 1)
  if (before.exist.defined()) {
    share =
        share * before.exist.unsqueeze(-1).unsqueeze(-3).type_as(context.key);  // (..., G, S, 1)
  }
  context.key = torch::lerp(context.key, before.keys, share);  // (..., G, S, D)
}

void SmearedKeysImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SmearedKeys(num_kv_heads=" << num_kv_heads << ")";
}

AttentionHookFactory smeared_keys() {
  return {"smeared_keys", [](const AttentionDims& shape) {
            return std::make_shared<SmearedKeysImpl>(shape.num_kv_heads);
          }};
}

}  // namespace attend
