#include "attend/nn/kv_cache.h"

#include "nn/checks.h"
#include "ops/autocast.h"
#include "resolved.h"

#include <c10/core/InferenceMode.h>
#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <locale>
#include <sstream>
#include <string>

namespace attend {
namespace {

/// Returns the memory of this machine in bytes. The limit of a container may be lower.
double machine_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Returns a number of bytes as a text, for example "1.5 GiB".
std::string gibibytes(double bytes) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::fixed << std::setprecision(1) << bytes / (1 << 30) << " GiB";
  return text.str();
}

/// Returns a text with the options of the KvCache and the size of its keys and values, for error
/// messages.
std::string allocation_text(const KvCacheOptions& options, double bytes) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "the KvCache needs " << gibibytes(bytes) << " for the keys and values with num_layers ("
       << options.num_layers() << "), batch_size (" << options.batch_size() << "), num_kv_heads ("
       << options.num_kv_heads() << "), max_seq_len (" << options.max_seq_len() << "), head_dim ("
       << options.head_dim() << ") in " << options.dtype();
  return text.str();
}

/// Returns how many bytes the keys and values need for `max_seq_len` tokens. Returns a double,
/// since an integer may overflow.
double allocation_bytes(const KvCacheOptions& options) {
  double bytes = 2.0 * static_cast<double>(c10::elementSize(options.dtype()));
  for (const auto size : {options.num_layers(), options.batch_size(), options.num_kv_heads(),
                          options.max_seq_len(), options.head_dim()}) {
    bytes *= static_cast<double>(size);
  }
  return bytes;
}

/// Throws c10::ValueError if an option is missing or out of range.
void check_options(const KvCacheOptions& options) {
  for (const auto& [name, value] : {std::pair{"max_seq_len", options.max_seq_len()},
                                    {"num_layers", options.num_layers()},
                                    {"batch_size", options.batch_size()},
                                    {"num_kv_heads", options.num_kv_heads()},
                                    {"head_dim", options.head_dim()}}) {
    TORCH_CHECK_VALUE(value != -1, "KvCacheOptions: ", name, " is required, but not set");
  }
  check_not_negative("num_layers", options.num_layers());
  check_not_negative("batch_size", options.batch_size());
  check_positive("num_kv_heads", options.num_kv_heads());
  check_positive("head_dim", options.head_dim());
  check_positive("max_seq_len", options.max_seq_len());
  check_not_negative("sliding_window", options.sliding_window());
  TORCH_CHECK_VALUE(options.sliding_window() <= options.max_seq_len(), "sliding_window (",
                    options.sliding_window(), ") must be at most max_seq_len (",
                    options.max_seq_len(), ")");
}

/// For each layer, appends a tensor of zeros to `keys` and another to `values`. Each tensor has the
/// shape (batch_size, num_kv_heads, max_seq_len + 1, head_dim). The last slot is for padding.
/// Throws c10::OutOfMemoryError if the tensors do not fit into memory.
void allocate(const KvCacheOptions& options, std::vector<torch::Tensor>& keys,
              std::vector<torch::Tensor>& values) {
  const auto bytes = allocation_bytes(options);
  // The size is checked before the allocation. On a system that overcommits memory, an allocation
  // that is too large succeeds, and the system kills the process later.
  TORCH_CHECK_WITH(OutOfMemoryError, !options.device().is_cpu() || bytes <= machine_memory(),
                   allocation_text(options, bytes), "; this machine has ",
                   gibibytes(machine_memory()),
                   " of memory: reduce e.g. max_seq_len or batch_size");
  const std::vector<int64_t> shape{options.batch_size(), options.num_kv_heads(),
                                   options.max_seq_len() + 1, options.head_dim()};
  const auto tensor_options = torch::TensorOptions(options.dtype()).device(options.device());
  try {
    for (int64_t layer = 0; layer < options.num_layers(); ++layer) {
      // Not torch::empty, because uninitialized memory may contain NaN. Masked keys have the
      // attention weight 0, but 0 * NaN is NaN.
      keys.push_back(torch::zeros(shape, tensor_options));
      values.push_back(torch::zeros(shape, tensor_options));
    }
  } catch (c10::Error& error) {
    error.add_context(allocation_text(options, bytes));
    throw;
  }
}

/// Returns the version counter of `tensor`, which increases with each in-place change. Returns 0
/// for inference tensors, which have no version counter.
int64_t version_of(const torch::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

}  // namespace

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
  check_key_mask(tokens, key_mask);
  const auto mask = key_mask.defined() ? contiguous_on_cpu(key_mask) : key_mask;  // (B, T)
  const auto counts = count_tokens(tokens, mask);
  sequences_.check_room(counts);
  // The cache is changed at the end, so that it is unchanged if memory ends.
  auto sequences = sequences_;
  sequences.extend(counts);
  auto step = make_step(tokens, mask, counts, sequences);
  sequences_ = std::move(sequences);
  step_ = std::move(step);
}

/// Returns the step after `extend`. `key_mask` is undefined or on the CPU. `extended` are the
/// sequences with the new tokens.
KvCache::Step KvCache::make_step(int64_t tokens, const torch::Tensor& key_mask,
                                 const std::vector<int64_t>& counts,
                                 const Sequences& extended) const {
  const bool padded =
      std::any_of(counts.begin(), counts.end(), [&](int64_t count) { return count < tokens; });
  Step step{.tokens = tokens,
            .padded = padded,
            .aligned = !lengths().empty() && !padded && extended.have_equal_lengths() &&
                       !extended.any_overwritten(),
            .appended = std::vector<bool>(keys_.size(), false)};
  if (step.aligned) {
    const auto begin = lengths().front();
    step.positions = torch::arange(begin, begin + tokens, integers());  // (T)
    return step;
  }
  // Computed in integers: operators on tensors would take longer, and on a GPU much longer.
  const bool one_row = !padded && sequences_.have_equal_lengths();
  const auto num_rows = one_row ? 1 : lengths().size();
  const auto* is_token = padded ? key_mask.const_data_ptr<bool>() : nullptr;
  std::vector<int64_t> positions;
  std::vector<int64_t> slots;
  for (std::size_t row = 0; row < num_rows; ++row) {
    auto next = lengths().empty() ? 0 : lengths()[row];
    for (int64_t t = 0; t < tokens; ++t) {
      const bool is_padding = is_token != nullptr && !*is_token++;
      positions.push_back(is_padding ? std::max<int64_t>(next - 1, 0) : next);
      slots.push_back(is_padding ? max_seq_len() : next % max_seq_len());
      if (!is_padding) ++next;
    }
  }
  step.positions = matrix(positions, num_rows);
  step.slots = matrix(slots, num_rows);
  step.key_positions = matrix(extended.positions_in_slots(), lengths().size());
  step.key_mask = step.key_positions >= 0;
  return step;
}

KvCache::Step KvCache::empty_step() const {
  return {.positions = torch::empty({0}, integers()),
          .appended = std::vector<bool>(keys_.size(), true)};
}

torch::TensorOptions KvCache::integers() const {
  return torch::TensorOptions(torch::kLong).device(options_.device());
}

/// Returns `numbers` as a tensor (num_rows, N), or (N) if `num_rows` is 1. The latter broadcasts to
/// inputs with and without a batch.
torch::Tensor KvCache::matrix(const std::vector<int64_t>& numbers, std::size_t num_rows) const {
  const auto rows = static_cast<int64_t>(num_rows);
  auto result = torch::tensor(numbers, torch::kLong);
  if (rows != 1) result = result.view({rows, rows == 0 ? 0 : result.numel() / rows});
  return result.to(options_.device());
}

void KvCache::check_key_mask(int64_t tokens, const torch::Tensor& key_mask) const {
  if (!key_mask.defined()) return;
  TORCH_CHECK_TYPE(key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = token, false = padding), found ",
                   key_mask.scalar_type());
  const std::vector<int64_t> expected{batch_size(), tokens};
  TORCH_CHECK_VALUE(key_mask.sizes() == expected,
                    "key_mask must have shape (batch_size, tokens) = ", c10::IntArrayRef(expected),
                    ", found ", key_mask.sizes());
}

/// Returns the number of new tokens of each sequence, without padding. `key_mask` is undefined or
/// on the CPU.
std::vector<int64_t> KvCache::count_tokens(int64_t tokens, const torch::Tensor& key_mask) const {
  std::vector<int64_t> counts(lengths().size(), tokens);
  if (!key_mask.defined()) return counts;
  const auto* row = key_mask.const_data_ptr<bool>();
  for (auto& count : counts) {
    count = std::count(row, row + tokens, true);
    row += tokens;
  }
  return counts;
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
  // Keys and values of removed tokens are set to 0. Otherwise, they might contain NaN, and the
  // product of NaN and an attention weight of 0 is NaN. Only slots that may contain removed tokens
  // are visited.
  const auto used = sequences_.used_slots();
  const auto kept = lengths.empty() || sequences_.any_overwritten()
                        ? 0
                        : std::min(used, *std::min_element(lengths.begin(), lengths.end()));
  const auto rows = static_cast<int64_t>(lengths.size());
  const auto positions = torch::tensor(sequences_.positions_in_slots(), torch::kLong)
                             .view({rows, 1, used, 1})
                             .slice(2, kept);                                    // (B, 1, n, 1)
  const auto ends = torch::tensor(lengths, torch::kLong).view({rows, 1, 1, 1});  // (B, 1, 1, 1)
  const auto removed = (positions >= ends).to(options_.device());                // (B, 1, n, 1)
  for (auto* tensors : {&keys_, &values_}) {
    for (auto& tensor : *tensors) tensor.slice(2, kept, used).masked_fill_(removed, 0.0);
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

bool KvCache::can_append_token(int64_t layer, int64_t batch_size, int64_t num_kv_heads,
                               int64_t head_dim) const {
  const auto index = static_cast<std::size_t>(layer);
  if (step_.tokens != 1 || step_.padded || index >= keys_.size() || step_.appended[index] ||
      sequences_.any_overwritten()) {
    return false;
  }
  const auto& keys = keys_[index];
  return keys.scalar_type() == torch::kFloat && keys.is_cpu() && keys.size(0) == batch_size &&
         keys.size(1) == num_kv_heads && keys.size(3) == head_dim;
}

KvCache::Slots KvCache::append_token(int64_t layer) {
  const auto index = static_cast<std::size_t>(layer);
  step_.appended[index] = true;
  return {keys_[index], values_[index], lengths()};
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
  const auto used = cached.slice(2, 0, sequences_.used_slots());  // (B, G, S, D)
  if (step_.aligned) {
    used.slice(2, used.size(2) - step_.tokens).copy_(source);
  } else {
    const auto slots = step_.slots.unsqueeze(-1).expand({cached.size(0), step_.tokens, 1});
    cached.scatter_(2, slots.unsqueeze(1).expand_as(source), source);
  }
  return batched ? used : used.squeeze(0);
}

std::pair<torch::Tensor, torch::Tensor> KvCache::memory_keys(
    int64_t layer, const torch::Tensor& memory, torch::Dtype dtype,
    c10::function_ref<std::pair<torch::Tensor, torch::Tensor>()> project) {
  check_layer(layer);
  auto& cached = memory_[static_cast<std::size_t>(layer)];
  const bool is_current = cached.memory.is_same(memory) && cached.version == version_of(memory) &&
                          cached.key.scalar_type() == dtype;
  if (!is_current) {
    const auto [key, value] = project();
    // Stored as contiguous tensors, because each generation step reads them again.
    cached = {memory, version_of(memory), key.contiguous(), value.contiguous()};
  }
  return {cached.key, cached.value};
}

}  // namespace attend
