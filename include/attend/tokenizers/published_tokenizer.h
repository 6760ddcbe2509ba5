#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/tokenizers/chat_template.h"
#include "attend/tokenizers/text_tokenizer.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend {

/// File name of a `PublishedModel` in a run directory.
inline constexpr const char* kPublishedFile = "published.json";

/// What a run knows of the published model whose tokenizer it has.
struct PublishedModel {
  int64_t vocab_size = 0;                ///< rows of the embedding
  std::string model_type = {};           ///< key of `config.json`, such as "llama"
  std::vector<int64_t> eos_tokens = {};  ///< tokens that end a generated text
  /// Maximum number of tokens of a text, which is truncated; empty = no limit.
  std::optional<int64_t> max_length = std::nullopt;
  std::optional<ChatTemplate> chat_template = std::nullopt;  ///< template of conversations
};

/// The tokenizer of a published model as the tokenizer of a run, made by `attend import`.
///
///     auto tokenizer = load_published_tokenizer("runs/imported");
class ATTEND_API PublishedTokenizer : public Tokenizer {
 public:
  /// Texts are truncated as `model` says, and not padded.
  PublishedTokenizer(TextTokenizer text_tokenizer, PublishedModel model);

  /// The tokenizer of the published model, which truncates and pads like this one.
  const TextTokenizer& text_tokenizer() const { return text_tokenizer_; }
  /// What the run knows of the published model.
  const PublishedModel& model() const { return model_; }

  /// Returns `PublishedModel::vocab_size`.
  int64_t size() const override { return model_.vocab_size; }
  /// Returns the tokens of a text with special tokens, such as [CLS]. Throws InputError if a
  /// token has no row in the embedding.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// Does the same without special tokens if `options` says so, for a text that contains them, such
  /// as a rendered chat, or for the continuation of a text.
  std::vector<int64_t> encode(std::string_view text, EncodeOptions options) const;
  /// Returns the tokens of a text or of a part of one, without special tokens and truncation.
  /// Throws InputError if a token has no row in the embedding.
  std::vector<int32_t> token_ids(std::string_view text) const;
  /// Returns the text of tokens without special tokens.
  std::string decode(const std::vector<int64_t>& ids) const override;
  /// Returns one token in printable form; empty for a row of the embedding without a token.
  std::string token(int64_t id) const override;
  /// Returns the id of "[MASK]" or "<mask>".
  std::optional<int64_t> mask_token() const override;
  /// Returns two files: kTokenizerFile with the published text, and kPublishedFile.
  std::map<std::string, std::string> files() const override;

 private:
  TextTokenizer text_tokenizer_;
  PublishedModel model_;
};

/// Loads the tokenizer of a run that was imported from a published model; null if the tokenizer of
/// the run in `directory` is of another kind. Throws InputError if a file is missing or damaged.
ATTEND_API std::unique_ptr<PublishedTokenizer> load_published_tokenizer(
    const std::filesystem::path& directory);

}  // namespace attend
