#include "attend/nn/kv_cache.h"

#include "nn/checks.h"
#include "nn/kv_cache_allocation.h"
#include "ops/autocast.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace attend {

KvCache::KvCache(const KvCacheOptions& options) : options_(options) {
  check_options(options);
  // Tensors that are created in inference mode cannot be changed in place after the mode has ended.
  const c10::InferenceMode no_inference_mode(false);
  allocate(options, keys_, values_);
  memory_.resize(keys_.size());
  const auto num_rows = static_cast<std::size_t>(options.batch_size());
  sequences_ = {.lengths = std::vector<int64_t>(num_rows),
                .overwritten = std::vector<int64_t>(num_rows),
                .max_seq_len = options.max_seq_len(),
                .sliding_window = options.sliding_window()};
  step_ = empty_step();
}

void KvCache::clear() {
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.zero_();
  }
  std::fill(sequences_.lengths.begin(), sequences_.lengths.end(), 0);
  std::fill(sequences_.overwritten.begin(), sequences_.overwritten.end(), 0);
  std::fill(memory_.begin(), memory_.end(), MemoryKeys{});
  step_ = empty_step();
}

void KvCache::extend(int64_t tokens, const torch::Tensor& key_mask) {
  check_not_negative("tokens", tokens);
  check_appended();
  const auto counts = count_tokens(tokens, key_mask);
  sequences_.check_room(counts);
  const bool padded =
      std::any_of(counts.begin(), counts.end(), [&](int64_t count) { return count < tokens; });
  Step step{.tokens = tokens, .appended = std::vector<bool>(keys_.size(), false)};
  if (padded) {
    const auto is_token = key_mask.to(options_.device());
    const auto positions = column(lengths()) + is_token.cumsum(1) - 1;  // (B, T)
    const auto slots = torch::where(is_token, positions.remainder(max_seq_len()), max_seq_len());
    step.positions = without_single_batch(positions.clamp_min(0));
    step.slots = without_single_batch(slots);
  } else if (sequences_.have_equal_lengths()) {
    const auto begin = lengths().empty() ? 0 : lengths().front();
    step.positions = torch::arange(begin, begin + tokens, integers());  // (T)
  } else {
    step.positions = column(lengths()) + torch::arange(tokens, integers());  // (B, T)
  }

  sequences_.extend(counts);
  step.aligned = !lengths().empty() && !padded && sequences_.have_equal_lengths() &&
                 !sequences_.any_overwritten();
  if (!step.aligned) {
    if (!padded) step.slots = step.positions.remainder(max_seq_len());
    step.key_positions = without_single_batch(positions_in_slots());
    step.key_mask = step.key_positions >= 0;
  }
  step_ = std::move(step);
}

KvCache::Step KvCache::empty_step() const {
  return {.positions = torch::empty({0}, integers()),
          .appended = std::vector<bool>(keys_.size(), true)};
}

torch::TensorOptions KvCache::integers() const {
  return torch::TensorOptions(torch::kLong).device(options_.device());
}

/// Returns `numbers`, one per sequence, as a tensor (B, 1).
torch::Tensor KvCache::column(const std::vector<int64_t>& numbers) const {
  return torch::tensor(numbers, torch::kLong).to(options_.device()).unsqueeze(1);
}

/// Returns the position of the token in each of the S used slots: (B, S), -1 = no token.
torch::Tensor KvCache::positions_in_slots() const {
  const auto last = column(lengths()) - 1;                                // (B, 1)
  const auto slots = torch::arange(sequences_.used_slots(), integers());  // (S)
  const auto positions = last - (last - slots).remainder(max_seq_len());  // (B, S)
  return positions.masked_fill(positions < column(sequences_.overwritten), -1);
}

/// Returns the number of new tokens of each sequence, without padding.
std::vector<int64_t> KvCache::count_tokens(int64_t tokens, const torch::Tensor& key_mask) const {
  if (!key_mask.defined()) return std::vector<int64_t>(lengths().size(), tokens);
  TORCH_CHECK_TYPE(key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = token, false = padding), found ",
                   key_mask.scalar_type());
  const std::vector<int64_t> expected{batch_size(), tokens};
  TORCH_CHECK_VALUE(key_mask.sizes() == expected,
                    "key_mask must have shape (batch_size, tokens) = ", c10::IntArrayRef(expected),
                    ", found ", key_mask.sizes());
  const auto counts = key_mask.sum(1).cpu();  // (B)
  return {counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + counts.numel()};
}

void KvCache::check_appended() const {
  if (step_.tokens == 0) return;
  const auto missing = std::find(step_.appended.begin(), step_.appended.end(), false);
  TORCH_CHECK_VALUE(missing == step_.appended.end(), "layer ", missing - step_.appended.begin(),
                    " of ", keys_.size(), " has not appended the ", step_.tokens,
                    " tokens of the last extend: call the model after each extend, or undo the "
                    "extend with truncate");
}

torch::Tensor KvCache::positions() const {
  return step_.positions.expand({batch_size(), step_.tokens});
}

void KvCache::truncate(const std::vector<int64_t>& lengths) {
  sequences_.check_truncate(lengths);
  const auto removed = positions_in_slots() >= column(lengths);  // (B, S)
  // Keys and values of removed tokens are set to 0. Otherwise, they might contain NaN, and the
  // product of NaN and an attention weight of 0 is NaN. Only slots that may contain removed tokens
  // are visited.
  const auto used = sequences_.used_slots();
  const auto kept = lengths.empty() || sequences_.any_overwritten()
                        ? 0
                        : std::min(used, *std::min_element(lengths.begin(), lengths.end()));
  const auto slots = removed.slice(1, kept).unsqueeze(1).unsqueeze(-1);  // (B, 1, n, 1)
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.slice(2, kept, used).masked_fill_(slots, 0.0);
  }
  sequences_.lengths = lengths;
  step_ = empty_step();
}

void KvCache::select_rows(const std::vector<int64_t>& rows) {
  check_appended();
  auto selected = sequences_.select(rows);
  const c10::InferenceMode no_inference_mode(false);
  const auto index = torch::tensor(rows, torch::kLong).to(options_.device());
  // If there are more rows than before, the rows are copied to new tensors. These are allocated for
  // all layers first, so that a failed allocation leaves the cache unchanged.
  std::vector<torch::Tensor> keys;
  std::vector<torch::Tensor> values;
  const auto num_rows = static_cast<int64_t>(rows.size());
  if (num_rows > batch_size()) {
    allocate(KvCacheOptions(options_).batch_size(num_rows), keys, values);
  } else {
    for (const auto& tensor : keys_) keys.push_back(tensor.narrow(0, 0, num_rows));
    for (const auto& tensor : values_) values.push_back(tensor.narrow(0, 0, num_rows));
  }
  const auto copy_rows = [&, used = sequences_.used_slots()](const std::vector<torch::Tensor>& from,
                                                             std::vector<torch::Tensor>& to) {
    for (std::size_t layer = 0; layer < from.size(); ++layer) {
      const auto copied = from[layer].narrow(2, 0, used).index_select(0, index);  // (N, G, S, D)
      to[layer] = to[layer].to(copied.scalar_type());  // options_.dtype() or the autocast dtype
      to[layer].narrow(2, 0, used).copy_(copied);
    }
  };
  copy_rows(keys_, keys);
  copy_rows(values_, values);
  keys_ = std::move(keys);
  values_ = std::move(values);
  sequences_ = std::move(selected);
  step_ = empty_step();
}

std::pair<torch::Tensor, torch::Tensor> KvCache::append(int64_t layer, const torch::Tensor& key,
                                                        const torch::Tensor& value) {
  check_layer(layer);
  auto& keys = keys_[static_cast<std::size_t>(layer)];
  auto& values = values_[static_cast<std::size_t>(layer)];
  check_match(keys, key);
  check_match(values, value);
  check_append(layer, key.size(-2));
  step_.appended[static_cast<std::size_t>(layer)] = true;
  return {write(keys, key), write(values, value)};
}

void KvCache::check_layer(int64_t layer) const {
  const auto num_layers = static_cast<int64_t>(keys_.size());
  TORCH_CHECK_VALUE(layer >= 0 && layer < num_layers, "layer (", layer, ") must be in [0, ",
                    num_layers, "): the KvCache has ", num_layers, " layers");
}

void KvCache::check_append(int64_t layer, int64_t tokens) const {
  check_layer(layer);
  TORCH_CHECK_VALUE(!step_.appended[static_cast<std::size_t>(layer)], "layer ", layer, " received ",
                    tokens,
                    " tokens, but KvCache::extend was not called before this forward pass: call "
                    "extend before each forward pass");
  TORCH_CHECK_VALUE(tokens == step_.tokens, "layer ", layer, " received ", tokens,
                    " tokens, but KvCache::extend was called with ", step_.tokens);
}

void KvCache::check_match(const torch::Tensor& cached, const torch::Tensor& added) const {
  const bool batched = added.dim() == 4;
  const bool matches = (batched ? added.size(0) : 1) == cached.size(0) &&
                       added.size(-3) == cached.size(1) && added.size(-1) == cached.size(3);
  TORCH_CHECK_VALUE(matches, "the KvCache expects keys and values (B, G, T, D) = [", cached.size(0),
                    ", ", cached.size(1), ", ", step_.tokens, ", ", cached.size(3), "], found ",
                    added.sizes());
  TORCH_CHECK_TYPE(
      added.scalar_type() == cached.scalar_type() || autocast_dtype(added.device().type()),
      "the KvCache expects keys and values of dtype ", cached.scalar_type(), ", found ",
      added.scalar_type());
  TORCH_CHECK_VALUE(added.device() == cached.device(), "the KvCache expects keys and values on ",
                    cached.device(), ", found ", added.device());
  TORCH_CHECK_VALUE(!added.requires_grad(),
                    "KvCache is for inference, found keys or values that require a gradient: use "
                    "torch::NoGradGuard");
}

/// Writes `added` (B, G, T, D) to those slots of `cached` that the last `extend` assigned to its
/// tokens. Returns the used slots of `cached`, (B, G, S, D). The result has a batch dimension only
/// if `added` has one.
torch::Tensor KvCache::write(torch::Tensor& cached, const torch::Tensor& added) const {
  if (cached.scalar_type() != added.scalar_type()) {  // only under autocast
    const c10::InferenceMode no_inference_mode(false);
    cached = cached.to(added.scalar_type());
  }
  const bool batched = added.dim() == 4;
  const auto source = batched ? added : added.unsqueeze(0);
  const auto used = cached.narrow(2, 0, sequences_.used_slots());  // (B, G, S, D)
  if (step_.aligned) {
    used.narrow(2, used.size(2) - step_.tokens, step_.tokens).copy_(source);
  } else {
    const auto slots = step_.slots.unsqueeze(-1).expand({cached.size(0), step_.tokens, 1});
    cached.scatter_(2, slots.unsqueeze(1).expand_as(source), source);
  }
  return batched ? used : used.squeeze(0);
}

/// If there is one sequence, returns `x` (1, N) as (N), which broadcasts to inputs with and without
/// a batch. Otherwise returns `x`.
torch::Tensor KvCache::without_single_batch(const torch::Tensor& x) const {
  return batch_size() == 1 ? x.squeeze(0) : x;
}

}  // namespace attend
