#include "tokenizers/post_processors.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/token_table.h"

#include <fmt/format.h>

#include <array>

namespace attend::tokenizers {
namespace post_processors {
namespace {

void append(Encoding& encoding, int64_t id, int64_t type_id) {
  encoding.ids.push_back(id);
  encoding.type_ids.push_back(type_id);
}

void append(Encoding& encoding, const Encoding& other) {
  encoding.ids.insert(encoding.ids.end(), other.ids.begin(), other.ids.end());
  encoding.type_ids.insert(encoding.type_ids.end(), other.type_ids.begin(), other.type_ids.end());
}

using Encodings = std::vector<Encoding>;

std::size_t count_tokens(const Encodings& encodings) {
  std::size_t number = 0;
  for (const auto& encoding : encodings) number += encoding.ids.size();
  return number;
}

/// Maximum number of special tokens in a template.
constexpr std::size_t kMaxSpecialTokens = 1'000'000;

int64_t count(const BertProcessing&, bool is_pair) {
  return is_pair ? 3 : 2;
}
int64_t count(const RobertaProcessing&, bool is_pair) {
  return is_pair ? 4 : 2;
}
int64_t count(const TemplateProcessing& options, bool is_pair) {
  int64_t number = 0;
  for (const auto& item : is_pair ? options.pair : options.single) {
    number += static_cast<int64_t>(item.ids.size());
  }
  return number;
}
int64_t count(const ByteLevel&, bool) {
  return 0;
}

Encodings apply(const BertProcessing& options, Encodings encodings, bool adds) {
  if (!adds) return encodings;
  for (std::size_t i = 0; i < encodings.size(); ++i) {
    Encoding result;
    if (i == 0) append(result, options.cls, 0);
    append(result, encodings[i]);
    append(result, options.sep, i == 0 ? 0 : 1);
    encodings[i] = std::move(result);
  }
  return encodings;
}

Encodings apply(const RobertaProcessing& options, Encodings encodings, bool adds) {
  for (std::size_t i = 0; i < encodings.size(); ++i) {
    auto& encoding = encodings[i];
    encoding.type_ids.assign(encoding.ids.size(), 0);
    if (!adds) continue;
    Encoding result;
    append(result, i == 0 ? options.cls : options.sep, 0);
    append(result, encoding);
    append(result, options.sep, 0);
    encoding = std::move(result);
  }
  return encodings;
}

Encodings apply(const TemplateProcessing& options, Encodings encodings, bool adds) {
  if (encodings.size() > 2) {
    throw InputError(
        fmt::format("`post_processor`: TemplateProcessing found {} sequences, expected 1 "
                    "or 2: it must be the first part that adds tokens",
                    encodings.size()));
  }
  const auto& items = encodings.size() == 2 ? options.pair : options.single;
  std::size_t size = 0;
  for (const auto& item : items) {
    size +=
        item.text < 0 ? item.ids.size() : encodings[static_cast<std::size_t>(item.text)].ids.size();
  }
  check_growth("post_processor", count_tokens(encodings), size, "tokens");
  Encodings results;
  for (const auto& item : items) {
    if (item.text < 0) {
      if (!adds) continue;
      auto& result = results.emplace_back();
      for (const auto id : item.ids) append(result, id, item.type_id);
    } else {
      auto& result = results.emplace_back(encodings[static_cast<std::size_t>(item.text)]);
      result.type_ids.assign(result.ids.size(), item.type_id);
    }
  }
  return results;
}

Encodings apply(const ByteLevel&, Encodings encodings, bool) {
  return encodings;
}

/// Reads an array of a token and its id.
int64_t parse_token(JsonFields& fields, const std::string& key) {
  const auto& value = fields.value(key);
  const bool is_token = value.is_array() && value.size() == 2 && value[0].is_string() &&
                        value[1].is_number_unsigned() &&
                        value[1].get<uint64_t>() <= static_cast<uint64_t>(TokenTable::kMaxId);
  if (!is_token) fields.throw_unexpected(key, "an array of a token and its id");
  return value[1].get<int64_t>();
}

std::vector<TemplateProcessing::Item> parse_template(JsonFields& fields, const std::string& key,
                                                     JsonFields& tokens, int texts) {
  std::vector<TemplateProcessing::Item> items;
  std::size_t special_tokens = 0;
  for (auto& element : fields.objects(key)) {
    auto& item = items.emplace_back();
    const bool is_text = element.has("Sequence");
    auto piece = element.object(is_text ? "Sequence" : "SpecialToken");
    item.type_id = piece.integer("type_id", 0, INT32_MAX);
    if (is_text) {
      item.text = static_cast<int>(piece.choice("id", {"A", "B"}));
      if (item.text >= texts) piece.throw_unexpected("id", "A, since there is one text");
    } else {
      const auto name = piece.string("id");
      if (!tokens.has(name)) piece.throw_unexpected("id", "a key of `special_tokens`");
      auto token = tokens.object(name);
      token.ignore({"id", "tokens"});
      const auto& ids = token.value("ids");
      if (!ids.is_array()) token.throw_unexpected("ids", "an array of token ids");
      special_tokens += ids.size();
      if (special_tokens > kMaxSpecialTokens) {
        throw InputError(fmt::format("`{}`: found {} special tokens or more, expected at most {}",
                                     fields.path_of(key), special_tokens, kMaxSpecialTokens));
      }
      for (const auto& id : ids) {
        if (!id.is_number_unsigned() ||
            id.get<uint64_t>() > static_cast<uint64_t>(TokenTable::kMaxId)) {
          token.throw_unexpected("ids", "an array of token ids");
        }
        item.ids.push_back(id.get<int64_t>());
      }
      token.finish();
    }
    piece.finish();
    element.finish();
  }
  return items;
}

PostProcessor parse_template_processing(JsonFields& fields) {
  auto tokens = fields.object("special_tokens");
  TemplateProcessing part;
  part.single = parse_template(fields, "single", tokens, 1);
  part.pair = parse_template(fields, "pair", tokens, 2);
  return part;
}

const std::array kTypes{
    PartType<PostProcessor>{
        "BertProcessing",
        [](JsonFields& fields) -> PostProcessor {
          return BertProcessing{parse_token(fields, "cls"), parse_token(fields, "sep")};
        }},
    PartType<PostProcessor>{
        "RobertaProcessing",
        [](JsonFields& fields) -> PostProcessor {
          fields.ignore({"trim_offsets", "add_prefix_space"});
          return RobertaProcessing{parse_token(fields, "cls"), parse_token(fields, "sep")};
        }},
    PartType<PostProcessor>{"TemplateProcessing", parse_template_processing},
    PartType<PostProcessor>{"ByteLevel",
                            [](JsonFields& fields) -> PostProcessor {
                              fields.ignore({"add_prefix_space", "trim_offsets", "use_regex"});
                              return ByteLevel{};
                            }},
};

}  // namespace
}  // namespace post_processors

std::vector<PostProcessor> parse_post_processors(JsonFields& root) {
  return parts_under<PostProcessor>("post_processor", root, post_processors::kTypes, "processors");
}

int64_t count_special_tokens(const std::vector<PostProcessor>& parts, bool is_pair) {
  int64_t number = 0;
  for (const auto& part : parts) {
    number += std::visit(
        [&](const auto& options) { return post_processors::count(options, is_pair); }, part);
  }
  return number;
}

Encoding post_process(const std::vector<PostProcessor>& parts, std::vector<Encoding> encodings,
                      bool add_special_tokens) {
  const auto original_tokens = post_processors::count_tokens(encodings);
  for (const auto& part : parts) {
    encodings = std::visit(
        [&](const auto& options) {
          return post_processors::apply(options, std::move(encodings), add_special_tokens);
        },
        part);
    check_growth("post_processor", original_tokens, post_processors::count_tokens(encodings),
                 "tokens");
  }
  Encoding result;
  for (const auto& encoding : encodings) post_processors::append(result, encoding);
  return result;
}

}  // namespace attend::tokenizers
