#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

class Tokenizer;

/// Side of a text at which tokens are removed or added.
enum class TextSide {
  left,   ///< start of the text
  right,  ///< end of the text
};

/// Names of `TextSide`.
template <>
struct EnumNames<TextSide> {
  static constexpr std::array<std::string_view, 2> names{"left", "right"};
};

/// Texts of a pair from which truncation removes tokens.
enum class TruncationStrategy {
  longest_first,  ///< the longer text, then both
  only_first,     ///< the first text
  only_second,    ///< the second text
};

/// Names of `TruncationStrategy`.
template <>
struct EnumNames<TruncationStrategy> {
  static constexpr std::array<std::string_view, 3> names{"longest_first", "only_first",
                                                         "only_second"};
};

/// Maximum length of an encoding.
struct TruncationOptions {
  int64_t max_length = 512;         ///< Maximum number of tokens, including special tokens.
  TextSide side = TextSide::right;  ///< Side of the removed tokens.
  TruncationStrategy strategy = TruncationStrategy::longest_first;  ///< Truncated text of a pair.
};

/// Length to which encodings are padded.
struct PaddingOptions {
  std::optional<int64_t> length;  ///< Number of tokens; if not set, that of the longest encoding.
  std::optional<int64_t> multiple_of;  ///< If set, the length is rounded up to a multiple of it.
  TextSide side = TextSide::right;     ///< Side of the padding.
  int64_t id = 0;                      ///< Id of the padding token.
  int64_t type_id = 0;                 ///< Type id of the padding.
};

/// Token ids of a text or of a pair of texts. The vectors have the same length.
struct Encoding {
  std::vector<int64_t> ids;             ///< Token ids.
  std::vector<int64_t> type_ids;        ///< Segment of each token: 0, or 1 for the second text.
  std::vector<int64_t> attention_mask;  ///< 1 for tokens, 0 for padding.
};

/// Options of `TextTokenizer::encode`.
struct EncodeOptions {
  bool add_special_tokens = true;  ///< Adds special tokens such as `[CLS]` or `<s>`.
};

/// Options of `TextTokenizer::decode`.
struct DecodeOptions {
  bool skip_special_tokens = true;  ///< Omits special tokens.
};

/// Token that is found in a text before the text is split.
struct AddedToken {
  int64_t id;           ///< Token id.
  std::string content;  ///< Text of the token.
  bool special;         ///< True for tokens such as [CLS], which decoding can omit.
};

/// Tokenizer of a published model: the file `tokenizer.json` of Hugging Face. Token ids and decoded
/// texts are those of the Python package `tokenizers`.
///
/// Supports the models BPE, WordPiece, Unigram and WordLevel. Any number of threads may use the
/// same tokenizer. Needs no LibTorch.
///
///     auto tokenizer = attend::TextTokenizer::load("bert-base-uncased/tokenizer.json");
///     auto ids = tokenizer.encode("A cat sits.").ids;  // with [CLS] and [SEP]
///     tokenizer.decode(ids) == "a cat sits.";
class ATTEND_API TextTokenizer {
 public:
  /// Loads `tokenizer.json`. Throws InputError if the file cannot be read, is larger than 256 MiB,
  /// is damaged, or has a part or key that is not supported. The message names the file, the key,
  /// the value found and the value expected.
  static TextTokenizer load(const std::filesystem::path& path);
  /// Reads the text of a `tokenizer.json`. Throws InputError like `load`.
  static TextTokenizer parse(std::string_view json);

  /// Returns the tokens of a text, truncated and padded if the file or a setter says so. Invalid
  /// UTF-8 is replaced by U+FFFD. Throws InputError if a regular expression of the file takes too
  /// many steps, or a word is unknown and there is no unknown token.
  Encoding encode(std::string_view text, EncodeOptions options = {}) const;
  /// Returns the token ids of a text or of a part of one, without special tokens, truncation and
  /// padding. Throws InputError like `encode`.
  std::vector<int32_t> token_ids(std::string_view text) const;
  /// Returns the tokens of a pair of texts, such as a question and a passage.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       EncodeOptions options = {}) const;
  /// Returns the tokens of several texts. If padding is set without a length, pads all encodings to
  /// the length of the longest.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts,
                                     EncodeOptions options = {}) const;
  /// Returns the text of token ids. Ids that are not in the vocabulary are omitted.
  std::string decode(std::span<const int64_t> ids, DecodeOptions options = {}) const;

  /// Returns the id of a token, or nothing if the vocabulary does not contain it.
  std::optional<int64_t> token_to_id(std::string_view token) const;
  /// Returns the token of an id as it is in the vocabulary, or nothing if there is none.
  std::optional<std::string> id_to_token(int64_t id) const;
  /// Returns the text of the `tokenizer.json` that was loaded.
  const std::string& json() const;
  /// Returns the number of tokens, including added tokens. The embedding of a model may have more
  /// rows.
  int64_t vocab_size() const;
  /// Returns the added tokens, by id.
  std::vector<AddedToken> added_tokens() const;

  /// Returns the truncation; not set if encodings may have any length.
  const std::optional<TruncationOptions>& truncation() const { return truncation_; }
  /// Sets the truncation. The initial value is that of the file. Throws InputError if `max_length`
  /// is less than the number of special tokens of a text.
  void set_truncation(const std::optional<TruncationOptions>& truncation);
  /// Returns the padding; not set if encodings are not padded.
  const std::optional<PaddingOptions>& padding() const { return padding_; }
  /// Sets the padding. The initial value is that of the file.
  void set_padding(const std::optional<PaddingOptions>& padding);

 private:
  struct Parts;

  friend class StreamingDecoder;

  TextTokenizer() = default;
  Encoding encode_all(std::span<const std::string_view> texts, EncodeOptions options) const;

  std::shared_ptr<const Parts> parts_;
  std::optional<TruncationOptions> truncation_;
  std::optional<PaddingOptions> padding_;
};

/// Returns a published tokenizer with the token ids and texts of the tokenizer of a run. Throws
/// InputError unless the tokenizer is a character, byte or word tokenizer. Invalid UTF-8, which
/// only a byte tokenizer accepts, is encoded as U+FFFD.
///
///     auto tokenizer = attend::to_text_tokenizer(*run.tokenizer);
///     std::ofstream("tokenizer.json") << tokenizer.json();
ATTEND_API TextTokenizer to_text_tokenizer(const Tokenizer& tokenizer);

/// Decodes token ids one by one, for example while a model generates them. A character whose bytes
/// are in several tokens is returned when it is complete, and byte tokens such as <0xE2> when
/// another token follows: an invalid byte makes all byte tokens before it U+FFFD.
///
///     attend::StreamingDecoder decoder(tokenizer);
///     for (auto id : ids) std::string text = decoder.step(id);  // may be empty
class ATTEND_API StreamingDecoder {
 public:
  /// The decoder has its own reference to the content of `tokenizer`.
  explicit StreamingDecoder(TextTokenizer tokenizer, DecodeOptions options = {});

  /// Returns the text that a token completes; empty if the last character may be incomplete.
  std::string step(int64_t id);
  /// Returns the rest of the text, with U+FFFD for an incomplete character. The next token begins a
  /// new text.
  std::string finish();

 private:
  std::string rest_of(const std::string& text) const;

  TextTokenizer tokenizer_;
  DecodeOptions options_;
  std::vector<int64_t> ids_;  // of the tokens of `prefix_` and of those not returned yet
  std::string prefix_;        // text of the first `prefix_ids_` ids, which was returned
  std::size_t prefix_ids_ = 0;
  bool in_bytes_ = false;  // the last token is a byte token
};

}  // namespace attend
