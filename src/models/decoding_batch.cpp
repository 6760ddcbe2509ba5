#include "models/decoding_batch.h"

#include "models/rolling_window.h"

#include <algorithm>
#include <numeric>

namespace attend {
namespace {

/// Maximum number of tokens per row in a call with padding.
constexpr std::size_t kMaxPaddedTokens = 512;

}  // namespace

std::pair<torch::Tensor, torch::Tensor> padded(const std::vector<at::IntArrayRef>& rows,
                                               std::string_view side, const torch::Device& device) {
  const bool is_padded = std::any_of(
      rows.begin(), rows.end(), [&](const auto& row) { return row.size() != rows.front().size(); });
  if (!is_padded) {
    Tokens all;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    const auto length = rows.empty() ? 0 : static_cast<int64_t>(rows.front().size());
    const auto tokens = torch::tensor(all, torch::kLong);
    return {tokens.view({static_cast<int64_t>(rows.size()), length}).to(device), {}};  // (B, T)
  }
  std::vector<torch::Tensor> tokens;
  std::vector<torch::Tensor> key_mask;
  for (const auto& row : rows) {
    tokens.push_back(torch::tensor(row, torch::kLong));  // (T of the row)
    key_mask.push_back(torch::ones_like(tokens.back(), torch::kBool));
  }
  const auto pad = [&](const std::vector<torch::Tensor>& sequences) {
    return at::pad_sequence(sequences, /*batch_first=*/true, /*padding_value=*/0.0, side)
        .to(device);  // (B, T)
  };
  return {pad(tokens), pad(key_mask)};
}

DecodingBatch::DecodingBatch(NextTokenModel& model, KvCache cache, std::vector<Tokens> tokens,
                             int64_t max_seq_len, bool rolls, torch::Device device)
    : model_(model),
      cache_(std::move(cache)),
      tokens_(std::move(tokens)),
      begins_(tokens_.size(), 0),
      max_seq_len_(static_cast<std::size_t>(max_seq_len)),
      kept_(static_cast<std::size_t>(kept_context(max_seq_len))),
      rolls_(rolls),
      device_(device) {}

torch::Tensor DecodingBatch::next_logits() {
  if (!rolls_) shorten_contexts();
  auto max_tokens = max_seq_len_;  // maximum number of tokens per call
  if (const auto [shortest, longest] = pending_range();
      longest > std::max(shortest, kMaxPaddedTokens)) {
    // Padded calls need masks and biases of all pairs of tokens. Therefore, `shortest - 1` pending
    // tokens (tokens that are not in the cache) of each row are first fed without padding. The
    // other tokens are fed in short padded calls. Each row keeps at least one token for the last
    // call.
    for (auto left = shortest - 1; left > 0;) {
      const auto count = std::min(left, max_seq_len_);
      feed([count](std::size_t /*tokens*/) { return count; });
      left -= count;
    }
    max_tokens = std::min(max_seq_len_, kMaxPaddedTokens);
  }
  while (pending_range().second > max_tokens) {
    feed([max_tokens](std::size_t tokens) {
      return tokens > max_tokens ? std::min(tokens - max_tokens, max_tokens) : 0;
    });
  }
  const auto logits = feed([](std::size_t tokens) { return tokens; });  // (B, 1, V)
  return logits.select(1, -1).to(torch::kCPU, torch::kDouble);
}

void DecodingBatch::select(const std::vector<int64_t>& rows) {
  std::vector<int64_t> all(tokens_.size());
  std::iota(all.begin(), all.end(), 0);
  if (rows == all) return;
  std::vector<Tokens> tokens;
  std::vector<std::size_t> begins;
  for (const auto row : rows) {
    tokens.push_back(tokens_[static_cast<std::size_t>(row)]);
    begins.push_back(begins_[static_cast<std::size_t>(row)]);
  }
  tokens_ = std::move(tokens);
  begins_ = std::move(begins);
  cache_.select_rows(rows);
  model_.select_rows(rows);
}

std::size_t DecodingBatch::cached(std::size_t row) const {
  return static_cast<std::size_t>(cache_.lengths()[row]);
}

/// Returns the number of tokens of the context that are not in the cache.
std::size_t DecodingBatch::pending(std::size_t row) const {
  return tokens_[row].size() - begins_[row] - cached(row);
}

/// Returns the smallest and the largest `pending(row)` of all rows.
std::pair<std::size_t, std::size_t> DecodingBatch::pending_range() const {
  auto [shortest, longest] = std::pair(pending(0), pending(0));
  for (std::size_t row = 1; row < size(); ++row) {
    shortest = std::min(shortest, pending(row));
    longest = std::max(longest, pending(row));
  }
  return {shortest, longest};
}

/// Drops the oldest tokens of each context that exceeds max_seq_len. This shifts all positions of
/// the row, so the row's cached keys and values become invalid and are removed. If tokens of the
/// row are in the cache, a quarter of the context is dropped at once: recomputing the context for
/// each new token would be slow.
void DecodingBatch::shorten_contexts() {
  auto lengths = cache_.lengths();
  for (std::size_t row = 0; row < size(); ++row) {
    const auto end = tokens_[row].size();
    if (end - begins_[row] <= max_seq_len_) continue;
    const auto kept = cached(row) == 0 ? max_seq_len_ : kept_;
    begins_[row] = end - kept;
    lengths[row] = 0;
  }
  if (lengths != cache_.lengths()) cache_.truncate(lengths);
}

/// For each row with n pending tokens, feeds the next `count(n)` of them to the model.
template <typename Count>
torch::Tensor DecodingBatch::feed(const Count& count) {
  std::vector<at::IntArrayRef> rows;
  for (std::size_t row = 0; row < size(); ++row) {
    const auto begin = begins_[row] + cached(row);
    rows.emplace_back(tokens_[row].data() + begin, count(pending(row)));
  }
  const auto [tokens, key_mask] = padded(rows, "left", device_);
  return model_.step(tokens, cache_, key_mask);
}

}  // namespace attend
