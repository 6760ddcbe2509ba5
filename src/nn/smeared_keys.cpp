#include "attend/nn/smeared_keys.h"

#include "nn/checks.h"

namespace attend {
namespace {

/// What stands one step before along `dim`; at the first step, what stands there.
torch::Tensor step_before(const torch::Tensor& x, int64_t dim) {
  return x.index_select(dim, (index_along(x, dim) - 1).clamp_min(0));
}

/// (B, 1, S, 1), or without the B: 1 where a key and the one before it belong together, else 0.
torch::Tensor as_factor(const torch::Tensor& together, const torch::Tensor& key) {
  return together.unsqueeze(-1).unsqueeze(-3).type_as(key);
}

}  // namespace

SmearedKeysImpl::SmearedKeysImpl(int64_t num_kv_heads) : num_kv_heads(num_kv_heads) {
  reset();
}

void SmearedKeysImpl::reset() {
  check_positive("num_kv_heads", num_kv_heads);
  logits = register_parameter("logits", torch::zeros({num_kv_heads}));
}

void SmearedKeysImpl::on_scores(Heads& heads) {
  const auto& args = heads.args;
  TORCH_CHECK_VALUE(heads.state.cache == nullptr || !args.key_positions.defined(),
                    "smeared_keys needs a cache whose sequences are equally long, and that has "
                    "dropped nothing");
  auto share = torch::sigmoid(logits).view({-1, 1, 1}).type_as(heads.key);  // (G, 1, 1)
  if (args.key_valid.defined()) {
    share = share * as_factor(step_before(args.key_valid, -1), heads.key);  // (B, G, S, 1)
  }
  const auto& documents = args.key_segments.defined() ? args.key_segments : args.segments;
  if (documents.defined()) {
    share = share * as_factor(documents == step_before(documents, -1), heads.key);
  }
  heads.key = torch::lerp(heads.key, step_before(heads.key, -2), share);  // (..., G, S, D)
}

void SmearedKeysImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SmearedKeys(num_kv_heads=" << num_kv_heads << ")";
}

AttentionPartFactory smeared_keys() {
  return {"smeared_keys", [](const HeadShape& shape) {
            return std::make_shared<SmearedKeysImpl>(shape.num_kv_heads);
          }};
}

}  // namespace attend
