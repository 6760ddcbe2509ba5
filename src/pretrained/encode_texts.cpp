#include "attend/io/utf8.h"
#include "attend/pretrained/pretrained.h"
#include "nn/check_eval.h"
#include "pretrained/architecture.h"
#include "tokenizers/python_text.h"

#include <fmt/format.h>
#include <torch/nn/utils/rnn.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

namespace attend {
namespace {

namespace rnn = torch::nn::utils::rnn;

/// Returns the tokens (B, T), padded on the right to the longest text, and the mask (B, T) of the
/// tokens.
std::pair<torch::Tensor, torch::Tensor> pad(const std::vector<std::vector<int64_t>>& texts,
                                            std::span<const int64_t> rows) {
  std::vector<torch::Tensor> tokens, masks;
  for (const auto row : rows) {
    tokens.push_back(torch::tensor(texts[static_cast<std::size_t>(row)], torch::kLong));
    masks.push_back(torch::ones_like(tokens.back(), torch::kBool));
  }
  return {rnn::pad_sequence(tokens, /*batch_first=*/true),
          rnn::pad_sequence(masks, /*batch_first=*/true)};
}

/// Returns the number of rows of the embedding of the texts.
int64_t vocab_size_of(const Model& model) {
  if (const auto* seq2seq = std::get_if<Seq2Seq>(&model))
    return (*seq2seq)->config.source_vocab_size;
  if (const auto* encoder = std::get_if<SequenceClassifier>(&model))
    return (*encoder)->config.vocab_size;
  return std::get<LanguageModel>(model)->config.vocab_size;
}

/// Throws InputError if the model cannot look up a token. Many published tokenizers have added
/// tokens that the model does not have, so only texts that contain one are refused.
void check_tokens(const Pretrained& pretrained, const std::vector<int64_t>& tokens) {
  const auto fail = [&](int64_t token, const std::string& why) {
    throw InputError(fmt::format("the text contains the token '{}' (id {} in tokenizer.json){}",
                                 printable(pretrained.tokenizer.id_to_token(token).value_or("")),
                                 token, why));
  };
  const auto vocab_size = vocab_size_of(pretrained.model);
  const auto architecture =
      std::ranges::find(architectures(), pretrained.model_type, &Architecture::model_type);
  const auto padding = architecture == architectures().end() ? -1 : architecture->padding_token;
  for (const auto token : tokens) {
    if (token >= vocab_size) {
      fail(token, fmt::format(", which the model does not have: vocab_size in config.json is {}",
                              vocab_size));
    }
    if (token == padding) {
      fail(token, fmt::format(", the padding token, which has no position in a {}",
                              pretrained.model_type));
    }
  }
}

}  // namespace

torch::Tensor encode_tokens(SequenceClassifier& model,
                            const std::vector<std::vector<int64_t>>& texts,
                            const EncodeTextsOptions& options) {
  TORCH_CHECK_VALUE(options.batch_size > 0, "batch_size (", options.batch_size,
                    ") must be positive");
  TORCH_CHECK_VALUE(model->config.pooling != Pooling::none,
                    "encode_tokens: pooling is none, expected mean, max or first: a classifier of "
                    "tokens has no vectors of texts");
  check_eval("encode_tokens", *model);
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> order(texts.size());  // by descending length
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int64_t row) {
    return texts[static_cast<std::size_t>(row)].size();
  });
  const auto& weight = model->embedding->token->weight;
  auto vectors = torch::empty({static_cast<int64_t>(texts.size()), weight.size(1)});
  const auto batch_size = static_cast<std::size_t>(options.batch_size);
  for (std::size_t begin = 0; begin < order.size(); begin += batch_size) {
    const auto rows = std::span(order).subspan(begin, std::min(batch_size, order.size() - begin));
    const auto [tokens, key_mask] = pad(texts, rows);
    const auto encoded = model->encode(tokens.to(weight.device()), key_mask.to(weight.device()))
                             .to(torch::kCPU, torch::kFloat);  // (B, E)
    vectors.index_copy_(0, torch::tensor(std::vector<int64_t>(rows.begin(), rows.end())), encoded);
    if (options.on_progress) options.on_progress(begin + rows.size());
  }
  return vectors;
}

std::vector<int64_t> Pretrained::tokenize(const std::string& text) const {
  check_utf8(text, "the text");
  const auto* encoder = std::get_if<SequenceClassifier>(&model);
  auto prepared = prompt + text;
  if (encoder != nullptr && (*encoder)->config.num_classes == 0)
    prepared = std::string(tokenizers::stripped(prepared));
  if (lowercase) prepared = tokenizers::lowercased(prepared);
  auto tokens = tokenizer.encode(prepared).ids;
  check_tokens(*this, tokens);
  return tokens;
}

std::vector<int64_t> Pretrained::tokenize(const RenderedChat& chat) const {
  auto tokens = tokenizer.encode(chat.text, {.add_special_tokens = false}).ids;
  check_tokens(*this, tokens);
  return tokens;
}

torch::Tensor Pretrained::encode(const std::vector<std::string>& texts,
                                 const EncodeTextsOptions& options) {
  auto& encoder = model_as<SequenceClassifier>(model, "encode of the " + model_type + " model");
  if (encoder->config.pooling == Pooling::none)
    throw InputError("the model classifies tokens and has no vectors of texts");
  std::vector<std::vector<int64_t>> tokens;
  for (const auto& text : texts) {
    tokens.push_back(
        with_source(fmt::format("text {}", tokens.size()), [&] { return tokenize(text); }));
  }
  return encode_tokens(encoder, tokens, options);
}

}  // namespace attend
