#include "attend/nn/kv_cache.h"

#include "nn/checks.h"
#include "nn/kv_cache_allocation.h"
#include "ops/autocast.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace attend {
namespace {

int64_t max_of(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end());
}

int64_t min_of(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? 0 : *std::min_element(numbers.begin(), numbers.end());
}

bool all_equal(const std::vector<int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int64_t number) { return number == numbers.front(); });
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options) : options_(options) {
  check_options(options);
  // Tensors that are created in inference mode cannot be changed in place after the mode has ended.
  const c10::InferenceMode no_inference_mode(false);
  allocate(options, keys_, values_);
  memory_.resize(keys_.size());
  key_positions_ = torch::full({options.batch_size(), max_seq_len() + 1}, -1,
                               torch::TensorOptions(torch::kLong).device(options.device()));
  lengths_.assign(static_cast<std::size_t>(options.batch_size()), 0);
  overwritten_ = lengths_;
  step_ = empty_step();
}

void KvCache::clear() {
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.zero_();
  }
  key_positions_.fill_(-1);
  std::fill(lengths_.begin(), lengths_.end(), 0);
  std::fill(overwritten_.begin(), overwritten_.end(), 0);
  std::fill(memory_.begin(), memory_.end(), MemoryKeys{});
  step_ = empty_step();
}

void KvCache::extend(int64_t tokens, const torch::Tensor& key_mask) {
  check_not_negative("tokens", tokens);
  check_appended();
  const auto counts = count_tokens(tokens, key_mask);
  for (std::size_t b = 0; b < counts.size(); ++b) check_room(lengths_[b], counts[b]);
  const bool padded =
      std::any_of(counts.begin(), counts.end(), [&](int64_t count) { return count < tokens; });
  step_ = next_step(tokens, key_mask, padded);

  const std::vector<int64_t> shape{batch_size(), tokens};
  key_positions_.scatter_(1, step_.slots.expand(shape), step_.positions.expand(shape));
  for (std::size_t b = 0; b < counts.size(); ++b) {
    lengths_[b] += counts[b];
    overwritten_[b] = std::max(overwritten_[b], lengths_[b] - max_seq_len());
  }
  step_.aligned = !lengths_.empty() && !padded && all_equal(lengths_) && max_of(overwritten_) == 0;
  if (step_.aligned) return;
  step_.key_positions = without_single_batch(key_positions_.narrow(1, 0, used_slots()));
  step_.key_mask = step_.key_positions >= 0;
}

KvCache::Step KvCache::empty_step() const {
  const auto empty = key_positions_.new_empty({0});
  return {.positions = empty, .slots = empty, .appended = std::vector<bool>(keys_.size(), true)};
}

KvCache::Step KvCache::next_step(int64_t tokens, const torch::Tensor& key_mask, bool padded) const {
  const auto integers = key_positions_.options();
  const auto begin = all_equal(lengths_)
                         ? torch::full({1}, max_of(lengths_), integers)  // (1)
                         : torch::tensor(lengths_, torch::kLong).to(integers.device()).unsqueeze(1);
  Step step{.tokens = tokens, .appended = std::vector<bool>(keys_.size(), false)};
  if (padded) {
    const auto is_token = key_mask.to(integers.device());
    const auto positions = begin + is_token.cumsum(1) - 1;  // (B, T)
    const auto slots = torch::where(is_token, positions.remainder(max_seq_len()), max_seq_len());
    step.positions = without_single_batch(positions.clamp_min(0));
    step.slots = without_single_batch(slots);
  } else {
    step.positions = begin + torch::arange(tokens, integers);  // (B, T) or (T)
    step.slots = step.positions.remainder(max_seq_len());
  }
  return step;
}

/// Returns the number of new tokens of each sequence, without padding.
std::vector<int64_t> KvCache::count_tokens(int64_t tokens, const torch::Tensor& key_mask) const {
  if (!key_mask.defined()) return std::vector<int64_t>(lengths_.size(), tokens);
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

void KvCache::check_room(int64_t length, int64_t added) const {
  if (length + added <= max_seq_len()) return;
  TORCH_CHECK_VALUE(sliding_window() > 0, "max_seq_len (", max_seq_len(),
                    ") of the KvCache must be at least ", length + added, ": a sequence has ",
                    length, " tokens and is extended by ", added);
  // After all new tokens have been written, the cache must still contain the window of the first
  // new token.
  const auto needed = sliding_window() + added - 1;
  TORCH_CHECK_VALUE(needed <= max_seq_len(), "max_seq_len (", max_seq_len(),
                    ") of the KvCache must be at least ", needed, " to extend it by ", added,
                    " tokens with a sliding_window of ", sliding_window(),
                    ": extend by fewer tokens at a time");
}

torch::Tensor KvCache::positions() const {
  return step_.positions.expand({batch_size(), step_.tokens});
}

void KvCache::truncate(const std::vector<int64_t>& lengths) {
  TORCH_CHECK_VALUE(lengths.size() == lengths_.size(), "truncate expects ", lengths_.size(),
                    " lengths, one per sequence, found ", lengths.size());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    TORCH_CHECK_VALUE(lengths[b] >= 0 && lengths[b] <= lengths_[b], "cannot truncate sequence ", b,
                      " to ", lengths[b], " tokens: the length must be in [0, ", lengths_[b], "]");
    const auto first_needed = std::max<int64_t>(0, lengths[b] - sliding_window() + 1);
    TORCH_CHECK_VALUE(overwritten_[b] <= first_needed || lengths[b] == lengths_[b],
                      "cannot truncate sequence ", b, " to ", lengths[b],
                      " tokens: the next token would attend to the tokens from index ",
                      first_needed, " on (sliding_window ", sliding_window(),
                      "), but the tokens before index ", overwritten_[b], " have been overwritten");
  }
  const auto ends = torch::tensor(lengths, torch::kLong).to(key_positions_.device()).unsqueeze(1);
  const auto removed = key_positions_ >= ends;  // (B, slots)
  key_positions_.masked_fill_(removed, -1);
  // Keys and values of removed tokens are set to 0. Otherwise, they might contain NaN, and the
  // product of NaN and an attention weight of 0 is NaN. Only slots that may contain removed tokens
  // are visited.
  const auto used = used_slots();
  const auto first = max_of(overwritten_) > 0 ? 0 : std::min(used, min_of(lengths));
  const auto slots = removed.slice(1, first, used).unsqueeze(1).unsqueeze(-1);  // (B, 1, n, 1)
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.slice(2, first, used).masked_fill_(slots, 0.0);
  }
  lengths_ = lengths;
  step_ = empty_step();
}

void KvCache::select_rows(const std::vector<int64_t>& rows) {
  check_appended();
  for (const auto row : rows) {
    TORCH_CHECK_VALUE(row >= 0 && row < batch_size(), "row (", row, ") must be in [0, ",
                      batch_size(), "): the KvCache has ", batch_size(), " sequences");
  }
  const c10::InferenceMode no_inference_mode(false);
  const auto index = torch::tensor(rows, torch::kLong).to(key_positions_.device());
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
  const auto copy_rows = [&, used = used_slots()](const std::vector<torch::Tensor>& from,
                                                  std::vector<torch::Tensor>& to) {
    for (std::size_t layer = 0; layer < from.size(); ++layer) {
      const auto selected = from[layer].narrow(2, 0, used).index_select(0, index);  // (N, G, S, D)
      to[layer] = to[layer].to(selected.scalar_type());  // options_.dtype() or the autocast dtype
      to[layer].narrow(2, 0, used).copy_(selected);
    }
  };
  copy_rows(keys_, keys);
  copy_rows(values_, values);
  keys_ = std::move(keys);
  values_ = std::move(values);
  key_positions_ = key_positions_.index_select(0, index);
  for (auto* numbers : {&lengths_, &overwritten_}) {
    std::vector<int64_t> selected;
    for (const auto row : rows) selected.push_back(numbers->at(static_cast<std::size_t>(row)));
    *numbers = std::move(selected);
  }
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
  const auto used = cached.narrow(2, 0, used_slots());  // (B, G, S, D)
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

int64_t KvCache::used_slots() const {
  return std::min(max_of(lengths_), max_seq_len());
}

}  // namespace attend
