#include "attend/io/subword_tokenizer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/load_sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace attend {
namespace {

BytesSink append_to(std::string& text) {
  return {&text, [](void* target, const char* bytes, std::size_t size) noexcept {
            static_cast<std::string*>(target)->append(bytes, size);
          }};
}

TokensSink append_to(std::vector<int64_t>& ids) {
  return {&ids, [](void* target, const int* tokens, std::size_t count) noexcept {
            auto& all = *static_cast<std::vector<int64_t>*>(target);
            all.insert(all.end(), tokens, tokens + count);
          }};
}

/// Rewords SentencePiece's error messages about the vocabulary size. Returns other messages
/// unchanged.
std::string explain(const std::string& reason) {
  int bound = 0;
  if (std::sscanf(reason.c_str(), "Vocabulary size is smaller than required_chars. %*d vs %d",
                  &bound) == 1) {
    return fmt::format("too few for this text, expected at least {}", bound);
  }
  if (std::sscanf(reason.c_str(), "Vocabulary size too high (%*d). Please set it to a value <= %d",
                  &bound) == 1) {
    return fmt::format("too many for this text, expected at most {}", bound);
  }
  return reason;
}

/// Clamps the vocabulary size to the positive range of int and to an upper bound for `text`. The
/// bound is 1000 plus two tokens per byte of `text`. There are fewer than 1000 byte tokens and
/// special tokens. Each other token is a character or a merge, and `text` has at most one character
/// and one merge per byte.
int clamp_vocab_size(std::string_view text, int64_t size) {
  const auto most = 1000 + 2 * static_cast<int64_t>(text.size());
  return static_cast<int>(
      std::clamp<int64_t>(size, 1, std::min<int64_t>(most, std::numeric_limits<int>::max())));
}

std::shared_ptr<const SentencePieceModel> open_model(const std::string& bytes) {
  constexpr auto kMaxBytes = SubwordTokenizer::kMaxModelBytes;
  if (bytes.size() > kMaxBytes) {
    throw InputError(
        fmt::format("the SentencePiece model is too large: found {} bytes, expected at most {}",
                    bytes.size(), kMaxBytes));
  }
  const auto& module = load_sentencepiece();
  std::string reason;
  auto* model = module.open(bytes.data(), bytes.size(), append_to(reason));
  if (model == nullptr) {
    throw InputError(fmt::format("not a SentencePiece model with byte fallback: {}", reason));
  }
  return {model, module.close};
}

}  // namespace

SubwordTokenizer SubwordTokenizer::train(std::string_view text, int64_t size) {
  check_utf8(text);
  std::string model;
  std::string reason;
  if (!load_sentencepiece().train(text.data(), text.size(), clamp_vocab_size(text, size),
                                  append_to(model), append_to(reason))) {
    throw InputError(fmt::format("`vocab_size`: cannot train a vocabulary of {} subwords: {}", size,
                                 explain(reason)));
  }
  return SubwordTokenizer(std::move(model));
}

SubwordTokenizer::SubwordTokenizer(std::string model) : model_(std::move(model)) {
  const auto loaded = open_model(model_);
  const auto& module = load_sentencepiece();
  tokens_.resize(static_cast<std::size_t>(module.vocab_size(loaded.get())));
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    module.token(loaded.get(), static_cast<int>(id), append_to(tokens_[id]));
  }
  loaded_ = loaded;
}

std::vector<int64_t> SubwordTokenizer::encode(std::string_view text) const {
  check_utf8(text);
  std::vector<int64_t> ids;
  std::string reason;
  const auto* model = static_cast<const SentencePieceModel*>(loaded_.get());
  if (!load_sentencepiece().encode(model, text.data(), text.size(), append_to(ids),
                                   append_to(reason))) {
    throw InputError(fmt::format("SentencePiece cannot encode the text: {}", reason));
  }
  return ids;
}

std::string SubwordTokenizer::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) text += tokens_.at(static_cast<std::size_t>(id));
  return text;
}

std::string SubwordTokenizer::token(int64_t id) const {
  return printable(tokens_.at(static_cast<std::size_t>(id)));
}

std::map<std::string, std::string> SubwordTokenizer::files() const {
  return {{kTokenizerFile, "{\"tokenizer\": \"subword\"}\n"}, {kSubwordFile, model_}};
}

}  // namespace attend
