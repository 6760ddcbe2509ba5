#include "attend/input_error.h"
#include "attend/pretrained/pretrained.h"
#include "nn/check_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace attend {
namespace {

/// Tokens (B, T), padded on the right to the longest text, and the mask (B, T) of the tokens.
std::pair<torch::Tensor, torch::Tensor> pad(const std::vector<std::vector<int64_t>>& texts,
                                            std::span<const std::size_t> rows) {
  std::size_t length = 0;
  for (const auto row : rows) length = std::max(length, texts[row].size());
  const std::vector<int64_t> sizes{static_cast<int64_t>(rows.size()), static_cast<int64_t>(length)};
  auto tokens = torch::zeros(sizes, torch::kLong);
  auto key_mask = torch::zeros(sizes, torch::kBool);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& text = texts[rows[i]];
    std::ranges::copy(text, tokens.data_ptr<int64_t>() + i * length);
    std::fill_n(key_mask.data_ptr<bool>() + i * length, text.size(), true);
  }
  return {tokens, key_mask};
}

}  // namespace

torch::Tensor encode_tokens(SequenceClassifier& model,
                            const std::vector<std::vector<int64_t>>& texts,
                            const EncodeTextsOptions& options) {
  TORCH_CHECK_VALUE(options.batch_size > 0, "batch_size (", options.batch_size,
                    ") must be positive");
  check_eval("encode_tokens", *model);
  const torch::NoGradGuard no_grad;
  std::vector<std::size_t> order(texts.size());  // by descending length
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](auto row) { return texts[row].size(); });
  const auto& weight = model->embedding->token->weight;
  auto vectors = torch::empty({static_cast<int64_t>(texts.size()), weight.size(1)});
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  for (std::size_t begin = 0; begin < order.size(); begin += batch_size) {
    const auto rows = std::span(order).subspan(begin, std::min(batch_size, order.size() - begin));
    const auto [tokens, key_mask] = pad(texts, rows);
    const auto encoded = model->encode(tokens.to(weight.device()), key_mask.to(weight.device()))
                             .to(torch::kCPU, torch::kFloat);  // (B, E)
    for (std::size_t i = 0; i < rows.size(); ++i)
      vectors[static_cast<int64_t>(rows[i])] = encoded[static_cast<int64_t>(i)];
    if (options.on_progress) options.on_progress(begin + rows.size());
  }
  return vectors;
}

torch::Tensor Pretrained::encode(const std::vector<std::string>& texts,
                                 const EncodeTextsOptions& options) {
  auto* encoder = std::get_if<SequenceClassifier>(&model);
  if (encoder == nullptr) {
    throw InputError(fmt::format("expected an encoder of texts, found a {} ({})",
                                 kModelKinds.at(model.index()), model_type));
  }
  std::vector<std::vector<int64_t>> tokens;
  for (const auto& text : texts) tokens.push_back(tokenizer.encode(text).ids);
  return encode_tokens(*encoder, tokens, options);
}

}  // namespace attend
