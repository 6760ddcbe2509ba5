#include "attend/nn/kv_cache.h"

#include "nn/checks.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace attend {
namespace {

int64_t greatest(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

bool all_equal(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int64_t number) { return number == numbers.front(); });
}

void check_options(const KvCacheOptions& options) {
  check_not_negative("num_layers", options.num_layers());
  check_positive("num_kv_heads", options.num_kv_heads());
  check_positive("head_dim", options.head_dim());
  check_positive("max_seq_len", options.max_seq_len());
  check_not_negative("batch_size", options.batch_size());
  check_not_negative("sliding_window", options.sliding_window());
  TORCH_CHECK_VALUE(options.sliding_window() <= options.max_seq_len(), "sliding_window (",
                    options.sliding_window(), ") must not exceed the max_seq_len (",
                    options.max_seq_len(), ")");
}

/// `tokens` (B, N) as the attention has its heads: (N) if it has no batch.
torch::Tensor batched_as(const AttentionContext& context, const torch::Tensor& tokens) {
  return context.query.dim() == 3 && tokens.dim() == 2 ? tokens.squeeze(0) : tokens;
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options) : options_(options) {
  check_options(options);
  // Tensors made in inference mode could not be written to outside of it.
  const c10::InferenceMode outside(false);
  const auto slots = options.max_seq_len() + 1;
  const auto kept = torch::TensorOptions(options.dtype()).device(options.device());
  for (int64_t layer = 0; layer < options.num_layers(); ++layer) {
    for (auto* tensors : {&keys_, &values_}) {
      // Zeros, since a weight of zero does not hide what happens to lie in memory if that is NaN.
      tensors->push_back(torch::zeros(
          {options.batch_size(), options.num_kv_heads(), slots, options.head_dim()}, kept));
    }
  }
  key_positions_ = torch::full({options.batch_size(), slots}, -1, kept.dtype(torch::kLong));
  lengths_.assign(static_cast<std::size_t>(options.batch_size()), 0);
  dropped_ = lengths_;
  announced_ = nothing();
}

void KvCache::clear() {
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.zero_();
  }
  key_positions_.fill_(-1);
  std::fill(lengths_.begin(), lengths_.end(), 0);
  std::fill(dropped_.begin(), dropped_.end(), 0);
  announced_ = nothing();
}

void KvCache::extend(int64_t tokens, const torch::Tensor& key_mask) {
  check_not_negative("tokens", tokens);
  check_stored();
  const auto counts = count(tokens, key_mask);
  for (std::size_t b = 0; b < counts.size(); ++b) check_room(lengths_[b], counts[b]);
  const bool padded =
      std::any_of(counts.begin(), counts.end(), [&](int64_t count) { return count < tokens; });
  announced_ = announce(tokens, key_mask, padded);

  const std::vector<int64_t> shape{options_.batch_size(), tokens};
  key_positions_.scatter_(1, announced_.slots.expand(shape), announced_.positions.expand(shape));
  for (std::size_t b = 0; b < counts.size(); ++b) {
    lengths_[b] += counts[b];
    dropped_[b] = std::max(dropped_[b], lengths_[b] - max_seq_len());
  }
  announced_.in_order =
      !lengths_.empty() && !padded && all_equal(lengths_) && greatest(dropped_) == 0;
}

KvCache::Announcement KvCache::nothing() const {
  const auto none = key_positions_.new_empty({0});
  return {0, none, none, true, std::vector<bool>(keys_.size(), true)};
}

KvCache::Announcement KvCache::announce(int64_t tokens, const torch::Tensor& key_mask,
                                        bool padded) const {
  const auto integers = key_positions_.options();
  const auto begin = all_equal(lengths_)
                         ? torch::full({1}, greatest(lengths_), integers)  // (1)
                         : torch::tensor(lengths_, torch::kLong).to(integers.device()).unsqueeze(1);
  Announcement next = nothing();
  next.tokens = tokens;
  next.stored.assign(keys_.size(), false);
  if (padded) {
    const auto is_token = key_mask.to(integers.device());
    next.positions = begin + is_token.cumsum(1) - 1;  // (B, T)
    next.slots = torch::where(is_token, next.positions.remainder(max_seq_len()), max_seq_len());
    next.positions = next.positions.clamp_min(0);
  } else {
    next.positions = begin + torch::arange(tokens, integers);  // (B, T) or (T)
    next.slots = next.positions.remainder(max_seq_len());
  }
  return next;
}

/// How many tokens each sequence gets.
std::vector<int64_t> KvCache::count(int64_t tokens, const torch::Tensor& key_mask) const {
  if (!key_mask.defined()) return std::vector<int64_t>(lengths_.size(), tokens);
  TORCH_CHECK_TYPE(key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = a token, false = padding), found ",
                   key_mask.scalar_type());
  const std::vector<int64_t> expected{options_.batch_size(), tokens};
  TORCH_CHECK_VALUE(key_mask.sizes() == expected, "key_mask ", key_mask.sizes(), " must be ",
                    c10::IntArrayRef(expected), ", an entry for each token announced");
  const auto counts = key_mask.sum(1).cpu();  // (B)
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel()};
}

void KvCache::check_stored() const {
  if (announced_.tokens == 0) return;
  const auto missing = std::find(announced_.stored.begin(), announced_.stored.end(), false);
  TORCH_CHECK_VALUE(missing == announced_.stored.end(), "layer ",
                    missing - announced_.stored.begin(), " of the cache's ", keys_.size(),
                    " has not stored the ", announced_.tokens,
                    " tokens announced before: truncate takes them back");
}

void KvCache::check_room(int64_t length, int64_t added) const {
  if (length + added <= max_seq_len()) return;
  const auto window = options_.sliding_window();
  TORCH_CHECK_VALUE(window > 0, "the cache's max_seq_len (", max_seq_len(), ") is less than the ",
                    length, " tokens in it and the ", added, " to come");
  // The first of the new tokens still sees the keys of its window after the last one is stored.
  const auto needed = window + added - 1;
  TORCH_CHECK_VALUE(needed <= max_seq_len(), "the cache's max_seq_len (", max_seq_len(),
                    ") is less than ", needed, ", which ", added,
                    " tokens at once need with a window of ", window, ": feed fewer at once");
}

torch::Tensor KvCache::positions() const {
  return announced_.positions.expand({options_.batch_size(), announced_.tokens});
}

void KvCache::truncate(const std::vector<int64_t>& lengths) {
  TORCH_CHECK_VALUE(lengths.size() == lengths_.size(), "truncate needs ", lengths_.size(),
                    " lengths, found ", lengths.size());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    TORCH_CHECK_VALUE(lengths[b] >= 0 && lengths[b] <= lengths_[b], "sequence ", b, " of length ",
                      lengths_[b], " cannot be truncated to ", lengths[b]);
    const auto first_needed = std::max<int64_t>(0, lengths[b] - options_.sliding_window() + 1);
    TORCH_CHECK_VALUE(dropped_[b] <= first_needed || lengths[b] == lengths_[b], "sequence ", b,
                      " cannot be truncated to ", lengths[b], ": it needs its tokens from ",
                      first_needed, " on, and the first ", dropped_[b], " have been dropped");
  }
  lengths_ = lengths;
  const auto ends = torch::tensor(lengths, torch::kLong).to(key_positions_.device()).unsqueeze(1);
  key_positions_.masked_fill_(key_positions_ >= ends, -1);
  announced_ = nothing();
}

void KvCache::after_projection(AttentionContext& context) {
  check_call(context);
  context.args.positions = batched_as(context, announced_.positions);
}

void KvCache::before_attention(AttentionContext& context) {
  check_fits(context.key);
  check_fits(context.value);
  const auto layer = static_cast<std::size_t>(context.state.layer);
  context.key = store(keys_[layer], context.key);
  context.value = store(values_[layer], context.value);
  announced_.stored[layer] = true;
  if (announced_.in_order) {
    // Queries and keys then end together, which needs no positions, and no mask for a single step.
    context.args.positions.reset();
    return;
  }
  const auto kept = batched_as(context, key_positions_.narrow(1, 0, used_slots()));
  context.args.key_positions = kept;
  context.args.key_mask = kept >= 0;
}

torch::Tensor KvCache::after_attention(const AttentionContext& context,
                                       const torch::Tensor& output) {
  const auto window = options_.sliding_window();
  // Known only now: the window may be that of a part, which acts after the cache.
  TORCH_CHECK_VALUE(
      window == 0 || (context.args.sliding_window > 0 && context.args.sliding_window <= window),
      "the cache keeps a window of ", window,
      " tokens, the attention's window must be that or less, found ", context.args.sliding_window,
      context.args.sliding_window == 0 ? " (none)" : "");
  return output;
}

void KvCache::check_call(const AttentionContext& context) const {
  const auto layer = context.state.layer;
  const auto layers = static_cast<int64_t>(keys_.size());
  TORCH_CHECK_VALUE(layer >= 0 && layer < layers, "layer (", layer, ") must be one of the cache's ",
                    layers);
  const auto tokens = context.key.size(-2);
  TORCH_CHECK_VALUE(!announced_.stored[static_cast<std::size_t>(layer)], "layer ", layer, " got ",
                    tokens, " tokens that no extend has announced");
  TORCH_CHECK_VALUE(tokens == announced_.tokens, "layer ", layer, " got ", tokens,
                    " tokens, extend announced ", announced_.tokens);
  const auto& args = context.args;
  TORCH_CHECK_VALUE(!args.positions.defined() && !args.key_positions.defined(),
                    "with a cache, positions come from its lengths, found positions of the call");
  TORCH_CHECK_VALUE(!args.key_mask.defined(),
                    "with a cache, extend is told which tokens are valid, found key_mask");
  TORCH_CHECK_VALUE(!args.segments.defined() && !args.key_segments.defined(),
                    "with a cache, each row is one sequence, found segments");
  TORCH_CHECK_VALUE(!args.mask.defined() || announced_.in_order, "mask ", args.mask.sizes(),
                    " needs a cache whose sequences are equally long and complete");
}

void KvCache::check_fits(const torch::Tensor& fresh) const {
  const auto& kept = keys_.front();
  const bool batched = fresh.dim() == 4;
  const bool fits = (batched ? fresh.size(0) : 1) == kept.size(0) &&
                    fresh.size(-3) == kept.size(1) && fresh.size(-1) == kept.size(3);
  TORCH_CHECK_VALUE(fits, "the cache expects (batch, heads, T, width) = [", kept.size(0), ", ",
                    kept.size(1), ", ", announced_.tokens, ", ", kept.size(3), "], found ",
                    fresh.sizes());
  TORCH_CHECK_TYPE(fresh.scalar_type() == kept.scalar_type(), "the cache's dtype is ",
                   kept.scalar_type(), ", found keys or values of ", fresh.scalar_type());
  TORCH_CHECK_VALUE(fresh.device() == kept.device(), "the cache's device is ", kept.device(),
                    ", found keys or values on ", fresh.device());
  TORCH_CHECK_VALUE(!fresh.requires_grad(),
                    "the cache serves inference: use torch::NoGradGuard, found keys or values "
                    "that require a gradient");
}

/// Writes `fresh` (B, G, T, D) to its slots of `kept` and returns all of it that is in use; without
/// a batch if `fresh` has none.
torch::Tensor KvCache::store(torch::Tensor& kept, const torch::Tensor& fresh) const {
  const bool batched = fresh.dim() == 4;
  const auto added = batched ? fresh : fresh.unsqueeze(0);
  const auto used = kept.narrow(2, 0, used_slots());  // (B, G, S, D)
  if (announced_.in_order) {
    used.narrow(2, used.size(2) - announced_.tokens, announced_.tokens).copy_(added);
  } else {
    const auto slots = announced_.slots.unsqueeze(-1).expand({kept.size(0), announced_.tokens, 1});
    kept.scatter_(2, slots.unsqueeze(1).expand_as(added), added);
  }
  return batched ? used : used.squeeze(0);
}

int64_t KvCache::used_slots() const {
  return std::min(greatest(lengths_), max_seq_len());
}

}  // namespace attend
