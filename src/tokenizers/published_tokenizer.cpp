#include "attend/tokenizers/published_tokenizer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/json_fields.h"

#include <fmt/format.h>

#include <stdexcept>

namespace attend {
namespace {

PublishedModel read_model(JsonFields& fields) {
  PublishedModel model;
  model.vocab_size = fields.integer("vocab_size", 1, INT32_MAX);
  model.model_type = fields.string("model_type");
  model.eos_tokens = fields.integers("eos_tokens");
  if (fields.has("max_length")) model.max_length = fields.integer("max_length", 0, INT32_MAX);
  if (fields.has("chat_template")) {
    std::map<std::string, std::string> tokens;
    if (fields.has("special_tokens")) {
      auto special = fields.object("special_tokens");
      for (const auto& [name, token] : special.json().items()) tokens[name] = special.string(name);
    }
    model.chat_template = ChatTemplate::parse(fields.string("chat_template"), std::move(tokens));
  }
  fields.finish();
  return model;
}

/// Returns the tokens of a text. Throws InputError if a token has no row in the embedding.
template <typename Ids>
Ids checked_ids(Ids ids, const PublishedTokenizer& tokenizer) {
  for (const auto id : ids) {
    if (id < tokenizer.size()) continue;
    throw InputError(fmt::format(
        "the text contains the token '{}' (id {}), but the model has {} tokens",
        printable(tokenizer.text_tokenizer().id_to_token(id).value_or("")), id, tokenizer.size()));
  }
  return ids;
}

}  // namespace

PublishedTokenizer::PublishedTokenizer(TextTokenizer text_tokenizer, PublishedModel model)
    : text_tokenizer_(std::move(text_tokenizer)), model_(std::move(model)) {
  auto truncation = text_tokenizer_.truncation().value_or(TruncationOptions());
  truncation.max_length = model_.max_length.value_or(0);
  text_tokenizer_.set_truncation(model_.max_length ? std::optional(truncation) : std::nullopt);
  text_tokenizer_.set_padding(std::nullopt);
}

std::vector<int64_t> PublishedTokenizer::encode(std::string_view text) const {
  return encode(text, {});
}

std::vector<int64_t> PublishedTokenizer::encode(std::string_view text,
                                                EncodeOptions options) const {
  return checked_ids(text_tokenizer_.encode(text, options).ids, *this);
}

std::vector<int32_t> PublishedTokenizer::token_ids(std::string_view text) const {
  return checked_ids(text_tokenizer_.token_ids(text), *this);
}

std::string PublishedTokenizer::decode(const std::vector<int64_t>& ids) const {
  for (const auto id : ids) {
    if (id < 0 || id >= size()) throw std::out_of_range(fmt::format("token id {}", id));
  }
  return text_tokenizer_.decode(ids);
}

std::string PublishedTokenizer::token(int64_t id) const {
  if (id < 0 || id >= size()) throw std::out_of_range(fmt::format("token id {}", id));
  return printable(text_tokenizer_.id_to_token(id).value_or(""));
}

std::optional<int64_t> PublishedTokenizer::mask_token() const {
  for (const char* token : {"[MASK]", "<mask>"}) {
    if (const auto id = text_tokenizer_.token_to_id(token); id && *id < size()) return id;
  }
  return std::nullopt;
}

std::map<std::string, std::string> PublishedTokenizer::files() const {
  nlohmann::ordered_json json{{"vocab_size", model_.vocab_size},
                              {"model_type", model_.model_type},
                              {"eos_tokens", model_.eos_tokens}};
  if (model_.max_length) json["max_length"] = *model_.max_length;
  if (model_.chat_template) {
    json["chat_template"] = model_.chat_template->source();
    json["special_tokens"] = model_.chat_template->special_tokens();
  }
  return {{kTokenizerFile, text_tokenizer_.json()}, {kPublishedFile, json.dump(1) + "\n"}};
}

std::unique_ptr<PublishedTokenizer> load_published_tokenizer(
    const std::filesystem::path& directory) {
  const auto path = directory / kPublishedFile;
  if (!std::filesystem::exists(path)) return nullptr;
  auto tokenizer = TextTokenizer::load(directory / kTokenizerFile);
  return with_json_file(path, [&](JsonFields& fields) {
    return std::make_unique<PublishedTokenizer>(std::move(tokenizer), read_model(fields));
  });
}

}  // namespace attend
