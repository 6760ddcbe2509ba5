#include "attend/train/token_predictions.h"

#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/evaluation.h"
#include "attend/train/example_task.h"
#include "nn/check_eval.h"
#include "train/classifier_logits.h"
#include "train/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

const PublishedTokenizer* published(const Tokenizer& tokenizer) {
  return dynamic_cast<const PublishedTokenizer*>(&tokenizer);
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (auto from = text.find_first_not_of(kWhiteSpace); from != text.npos;) {
    const auto to = std::min(text.find_first_of(kWhiteSpace, from), text.size());
    words.emplace_back(text.substr(from, to - from));
    from = text.find_first_not_of(kWhiteSpace, to);
  }
  return words;
}

EncodedWords encode_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                          int64_t max_tokens) {
  const auto* model = published(tokenizer);
  const auto special = special_tokens_of(tokenizer);
  const auto limit = max_text_tokens(tokenizer, max_tokens);
  const auto room = std::max<int64_t>(limit - std::ssize(special.after), 0);
  EncodedWords encoded{.tokens = special.before, .first_tokens = {}};
  auto& tokens = encoded.tokens;
  for (const auto& word : words) {
    if (std::ssize(tokens) >= room) break;
    // A space precedes each word, as in a text: without it, the tokens of some tokenizers differ.
    const bool is_first = encoded.first_tokens.empty();
    const auto ids = model != nullptr ? model->encode(" " + word, {.add_special_tokens = false})
                                      : tokenizer.encode(is_first ? word : " " + word);
    auto first = std::ssize(tokens);
    // Character tokenizers have a token for the space, which is not part of the word.
    if (model == nullptr && !is_first)
      first += std::max<int64_t>(std::ssize(ids) - std::ssize(tokenizer.encode(word)), 0);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    if (first >= room) break;
    encoded.first_tokens.push_back(ids.empty() ? -1 : first);
  }
  if (std::ssize(tokens) > room) tokens.resize(static_cast<std::size_t>(room));
  tokens.insert(tokens.end(), special.after.begin(), special.after.end());
  return encoded;
}

std::vector<torch::Tensor> tag_probabilities(SequenceClassifier& model,
                                             const std::vector<EncodedWords>& sentences) {
  check_eval("tag_probabilities", *model);
  std::vector<std::vector<int64_t>> rows;
  for (const auto& sentence : sentences) rows.push_back(sentence.tokens);
  std::vector<torch::Tensor> all(sentences.size());
  for_each_logits(model, rows, [&](std::size_t i, const torch::Tensor& logits) {
    const auto first = torch::tensor(sentences[i].first_tokens, torch::kLong);  // (W)
    const auto probabilities = logits.softmax(-1).index_select(0, first.clamp_min(0));
    all[i] = probabilities.masked_fill(first.lt(0).unsqueeze(-1), 0.0);  // (W, C)
  });
  return all;
}

std::vector<int64_t> encode_masked(const Tokenizer& tokenizer, std::string_view text) {
  const auto mask = tokenizer.mask_token();
  if (!mask) throw InputError("the tokenizer of the model has no mask token, expected one");
  std::vector<int64_t> tokens;
  if (const auto* model = published(tokenizer); model != nullptr) {
    const auto ids = model->token_ids(text);  // does not truncate
    tokens = special_tokens_of(tokenizer).around({ids.begin(), ids.end()});
  } else {
    const std::string_view token = kMaskToken;
    for (auto from = text;;) {
      const auto end = from.find(token);
      const auto ids = tokenizer.encode(from.substr(0, end));
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      if (end == from.npos) break;
      tokens.push_back(*mask);
      from.remove_prefix(end + token.size());
    }
  }
  if (std::ranges::count(tokens, *mask) > 0) return tokens;
  throw InputError(fmt::format("found no masked token in the text, expected '{}' at least once",
                               tokenizer.token(*mask)));
}

torch::Tensor mask_probabilities(SequenceClassifier& model, const std::vector<int64_t>& tokens,
                                 int64_t mask_token) {
  check_eval("mask_probabilities", *model);
  const auto length = std::min<int64_t>(std::ssize(tokens), model->config.max_seq_len);
  const std::vector<int64_t> row(tokens.begin(), tokens.begin() + length);
  torch::Tensor probabilities;
  for_each_logits(model, {row}, [&](std::size_t, const torch::Tensor& logits) {
    const auto is_masked = torch::tensor(row, torch::kLong).eq(mask_token);
    probabilities = logits.index({is_masked}).softmax(-1);  // (M, V)
  });
  return probabilities;
}

}  // namespace attend::train
