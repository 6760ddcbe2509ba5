#include "attend/tokenizers/text_tokenizer.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "tokenizers/added_vocabulary.h"
#include "tokenizers/characters.h"
#include "tokenizers/decoders.h"
#include "tokenizers/models.h"
#include "tokenizers/normalizers.h"
#include "tokenizers/post_processors.h"
#include "tokenizers/pre_tokenizers.h"
#include "tokenizers/tokenizer_json.h"
#include "tokenizers/word_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend {

using namespace tokenizers;

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
/// Maximum length of padding, since a damaged file could otherwise fill the memory.
constexpr int64_t kMaxLength = 1'000'000;

std::optional<TruncationOptions> parse_truncation(JsonFields& root) {
  root.ignore({"truncation"});
  if (!root.has("truncation")) return std::nullopt;
  auto fields = root.object("truncation");
  fields.ignore({"stride", "direction"});  // `stride` has an effect only on the removed tokens
  TruncationOptions options;
  options.max_length = fields.integer("max_length", 0, INT64_MAX);
  if (fields.has("direction")) {
    options.side = static_cast<TextSide>(fields.choice("direction", {"Left", "Right"}));
  }
  options.strategy = static_cast<TruncationStrategy>(
      fields.choice("strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"}));
  fields.finish();
  return options;
}

std::optional<PaddingOptions> parse_padding(JsonFields& root) {
  root.ignore({"padding"});
  if (!root.has("padding")) return std::nullopt;
  auto fields = root.object("padding");
  fields.ignore({"pad_token", "pad_to_multiple_of"});
  PaddingOptions options;
  const auto& strategy = fields.value("strategy");
  if (strategy.is_object()) {
    auto fixed = fields.object("strategy");
    options.length = fixed.integer("Fixed", 0, kMaxLength);
    fixed.finish();
  } else {
    fields.choice("strategy", {"BatchLongest"});
  }
  options.side = static_cast<TextSide>(fields.choice("direction", {"Left", "Right"}));
  if (fields.has("pad_to_multiple_of")) {
    options.multiple_of = fields.integer("pad_to_multiple_of", 0, kMaxLength);
  }
  options.id = fields.integer("pad_id", 0, TokenTable::kMaxId);
  options.type_id = fields.integer("pad_type_id", 0, INT32_MAX);
  fields.finish();
  return options;
}

void truncate(Encoding& encoding, int64_t length, TextSide side) {
  const auto size = static_cast<int64_t>(encoding.ids.size());
  if (length >= size) return;
  for (auto* values : {&encoding.ids, &encoding.type_ids}) {
    if (side == TextSide::left) values->erase(values->begin(), values->end() - length);
    values->resize(static_cast<std::size_t>(length));
  }
}

/// Truncates one or two encodings to a total of `max_length` tokens.
void truncate_all(std::vector<Encoding>& encodings, int64_t max_length,
                  const TruncationOptions& options) {
  const auto size = [&](std::size_t i) { return static_cast<int64_t>(encodings[i].ids.size()); };
  const bool is_pair = encodings.size() == 2;
  const auto excess = size(0) + (is_pair ? size(1) : 0) - max_length;
  if (excess <= 0) return;
  if (options.strategy == TruncationStrategy::longest_first || max_length == 0) {
    if (!is_pair) return truncate(encodings[0], max_length, options.side);
    const bool first_is_shorter = size(0) <= size(1);
    auto shorter = std::min(size(0), size(1));
    auto longer = shorter > max_length ? shorter : std::max(shorter, max_length - shorter);
    if (shorter + longer > max_length) {
      shorter = max_length / 2;
      longer = shorter + max_length % 2;
    }
    truncate(encodings[0], first_is_shorter ? shorter : longer, options.side);
    truncate(encodings[1], first_is_shorter ? longer : shorter, options.side);
    return;
  }
  const std::size_t target = options.strategy == TruncationStrategy::only_first ? 0 : 1;
  if (target == 1 && !is_pair) {
    throw InputError(
        "truncation: the strategy is only_second, expected a pair of texts, found one text");
  }
  if (size(target) <= excess) {
    throw InputError(
        fmt::format("truncation: cannot remove {} tokens from a text of {} tokens, "
                    "expected at most {} tokens in both texts",
                    excess, size(target), max_length));
  }
  truncate(encodings[target], size(target) - excess, options.side);
}

void pad(Encoding& encoding, int64_t length, const PaddingOptions& options) {
  const auto size = static_cast<int64_t>(encoding.ids.size());
  if (length <= size) return;
  const auto insert = [&](std::vector<int64_t>& values, int64_t value) {
    const auto place = options.side == TextSide::left ? values.begin() : values.end();
    values.insert(place, static_cast<std::size_t>(length - size), value);
  };
  insert(encoding.ids, options.id);
  insert(encoding.type_ids, options.type_id);
  insert(encoding.attention_mask, 0);
}

int64_t rounded_up(int64_t length, const std::optional<int64_t>& multiple) {
  if (!multiple || *multiple <= 0 || length % *multiple == 0) return length;
  return length + *multiple - length % *multiple;
}

}  // namespace

struct TextTokenizer::Parts {
  std::string text;
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizer> pre_tokenizers;
  Model model;
  std::vector<PostProcessor> post_processors;
  std::vector<Decoder> decoders;
  AddedVocabulary added;
  mutable WordCaches caches;

  Parts(std::string_view file, JsonFields& root, TokenizerJson& json)
      : text(file),
        normalizers(parse_normalizers(root)),
        pre_tokenizers(parse_pre_tokenizers(root)),
        model(parse_model(root, json)),
        post_processors(parse_post_processors(root)),
        decoders(parse_decoders(root)),
        added(root, tokens(), normalizers) {}

  const TokenTable& tokens() const {
    return std::visit([](const auto& part) -> const TokenTable& { return part.tokens(); }, model);
  }

  std::vector<int32_t> ids_of(std::string_view text) const;
  /// Returns the token for the decoders; nothing if it is omitted.
  std::optional<std::string_view> token_to_decode(int64_t id, DecodeOptions options) const;
};

std::vector<int32_t> TextTokenizer::Parts::ids_of(std::string_view text) const {
  std::string valid;
  if (!is_utf8(text)) {
    append_valid_utf8(valid, text);
    text = valid;
  }
  auto pieces = added.split(text, normalizers);
  pre_tokenize(pre_tokenizers, pieces);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  auto cache = caches.take();
  const auto add = [&](const Piece& piece) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      return;
    }
    const auto word = pieces.text_of(piece);
    if (cache->find(word, ids)) return;
    const auto first = ids.size();
    std::visit([&](const auto& part) { part.tokenize(word, ids); }, model);
    cache->add(word, ids, first);
  };
  for (const auto& piece : pieces.pieces) add(piece);
  caches.give_back(std::move(cache));
  return ids;
}

std::optional<std::string_view> TextTokenizer::Parts::token_to_decode(int64_t id,
                                                                      DecodeOptions options) const {
  std::optional<std::string_view> token;
  if (const auto* text_of_added = added.text(id)) {
    token = *text_of_added;
  } else if (const auto known = tokens().text(id)) {
    token = *known;
  }
  if (token && options.skip_special_tokens && added.is_special(*token)) return std::nullopt;
  return token;
}

TextTokenizer TextTokenizer::load(const std::filesystem::path& path) {
  check_is_regular(path);
  const auto text = read_bytes(path, {kMaxFileBytes, ""});
  return with_source(path.string(), [&] { return parse(text); });
}

TextTokenizer TextTokenizer::parse(std::string_view text) {
  if (text.size() > kMaxFileBytes) {
    throw InputError(
        fmt::format("found {} bytes, expected at most {}", text.size(), kMaxFileBytes));
  }
  auto json = parse_tokenizer_json(text);
  if (!json.root.is_object()) {
    throw InputError(fmt::format("found {}, expected an object", shown(json.root)));
  }
  const auto content = std::move(json.root);
  JsonFields root(content, "");
  if (root.has("tokenizer") && !root.has("model")) {
    throw InputError(
        "`model`: no such key, expected the tokenizer.json of a published model; the key "
        "`tokenizer` "
        "shows that this is the tokenizer of a run of attend");
  }
  root.ignore({"version"});
  if (root.has("version") && root.string("version") != "1.0") {
    root.throw_unexpected("version", "\"1.0\"");
  }
  TextTokenizer tokenizer;
  tokenizer.parts_ = std::make_shared<const Parts>(text, root, json);
  tokenizer.padding_ = parse_padding(root);
  tokenizer.set_truncation(parse_truncation(root));
  root.finish();
  return tokenizer;
}

Encoding TextTokenizer::encode_all(std::span<const std::string_view> texts,
                                   EncodeOptions options) const {
  const bool is_pair = texts.size() == 2;
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = parts_->ids_of(texts[i]);
    auto& encoding = encodings.emplace_back();
    encoding.ids.assign(ids.begin(), ids.end());
    encoding.type_ids.assign(ids.size(), static_cast<int64_t>(i));
  }
  if (truncation_) {
    const auto special = options.add_special_tokens
                             ? count_special_tokens(parts_->post_processors, is_pair)
                             : int64_t{0};
    if (truncation_->max_length < special) {
      throw InputError(
          fmt::format("truncation: max_length is {}, expected at least {}, the number of "
                      "special tokens",
                      truncation_->max_length, special));
    }
    truncate_all(encodings, truncation_->max_length - special, *truncation_);
  }
  auto result =
      post_process(parts_->post_processors, std::move(encodings), options.add_special_tokens);
  result.attention_mask.assign(result.ids.size(), 1);
  return result;
}

std::vector<int32_t> TextTokenizer::token_ids(std::string_view text) const {
  return parts_->ids_of(text);
}

Encoding TextTokenizer::encode(std::string_view text, EncodeOptions options) const {
  auto encoding = encode_all({&text, 1}, options);
  if (padding_) {
    const auto size = static_cast<int64_t>(encoding.ids.size());
    pad(encoding, rounded_up(padding_->length.value_or(size), padding_->multiple_of), *padding_);
  }
  return encoding;
}

Encoding TextTokenizer::encode_pair(std::string_view first, std::string_view second,
                                    EncodeOptions options) const {
  const std::array texts{first, second};
  auto encoding = encode_all(texts, options);
  if (padding_) {
    const auto size = static_cast<int64_t>(encoding.ids.size());
    pad(encoding, rounded_up(padding_->length.value_or(size), padding_->multiple_of), *padding_);
  }
  return encoding;
}

std::vector<Encoding> TextTokenizer::encode_batch(std::span<const std::string> texts,
                                                  EncodeOptions options) const {
  std::vector<Encoding> encodings;
  encodings.reserve(texts.size());
  std::size_t longest = 0;
  for (const std::string_view text : texts) {
    longest = std::max(longest, encodings.emplace_back(encode_all({&text, 1}, options)).ids.size());
  }
  if (padding_) {
    const auto length = padding_->length.value_or(static_cast<int64_t>(longest));
    for (auto& encoding : encodings) {
      pad(encoding, rounded_up(length, padding_->multiple_of), *padding_);
    }
  }
  return encodings;
}

std::string TextTokenizer::decode(std::span<const int64_t> ids, DecodeOptions options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const auto id : ids) {
    if (const auto token = parts_->token_to_decode(id, options)) tokens.emplace_back(*token);
  }
  return decode_tokens(parts_->decoders, std::move(tokens));
}

std::optional<int64_t> TextTokenizer::token_to_id(std::string_view token) const {
  if (const auto id = parts_->added.find(token)) return *id;
  if (const auto id = parts_->tokens().find(token)) return *id;
  return std::nullopt;
}

std::optional<std::string> TextTokenizer::id_to_token(int64_t id) const {
  if (const auto* added = parts_->added.text(id)) return *added;
  if (const auto text = parts_->tokens().text(id)) return std::string(*text);
  return std::nullopt;
}

const std::string& TextTokenizer::json() const {
  return parts_->text;
}

int64_t TextTokenizer::vocab_size() const {
  return static_cast<int64_t>(parts_->tokens().size()) + parts_->added.new_tokens();
}

std::vector<AddedToken> TextTokenizer::added_tokens() const {
  return parts_->added.tokens();
}

void TextTokenizer::set_truncation(const std::optional<TruncationOptions>& truncation) {
  if (truncation) {
    const auto special = count_special_tokens(parts_->post_processors, /*is_pair=*/false);
    if (truncation->max_length < special) {
      throw InputError(fmt::format(
          "`truncation.max_length`: found {}, expected at least {}, the number of special tokens",
          truncation->max_length, special));
    }
  }
  truncation_ = truncation;
}

void TextTokenizer::set_padding(const std::optional<PaddingOptions>& padding) {
  padding_ = padding;
}

StreamingDecoder::StreamingDecoder(TextTokenizer tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string StreamingDecoder::rest_of(const std::string& text) const {
  if (text.starts_with(prefix_)) return text.substr(prefix_.size());
  // The next token can change the text of the tokens before it, which was returned already.
  return tokenizer_.decode(std::span(ids_).subspan(prefix_ids_), options_);
}

std::string StreamingDecoder::step(int64_t id) {
  ids_.push_back(id);
  const auto& parts = *tokenizer_.parts_;
  if (const auto token = parts.token_to_decode(id, options_)) {
    in_bytes_ = is_byte_token(parts.decoders, *token);
  }
  if (in_bytes_) return "";
  const auto text = tokenizer_.decode(ids_, options_);
  if (text.size() <= prefix_.size() || text.ends_with("\uFFFD")) return "";
  auto result = rest_of(text);
  // The tokens of this step remain, since the text of the next token may depend on them.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(prefix_ids_));
  prefix_ = tokenizer_.decode(ids_, options_);
  prefix_ids_ = ids_.size();
  return result;
}

std::string StreamingDecoder::finish() {
  auto result = rest_of(tokenizer_.decode(ids_, options_));
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  in_bytes_ = false;
  return result;
}

}  // namespace attend
