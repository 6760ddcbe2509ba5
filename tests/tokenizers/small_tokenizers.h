#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace attend {

/// Returns a `tokenizer.json` with a model and other keys. Tests change its values.
inline nlohmann::json tokenizer_json(nlohmann::json model,
                                     nlohmann::json others = nlohmann::json::object()) {
  nlohmann::json json{{"version", "1.0"},         {"truncation", nullptr},
                      {"padding", nullptr},       {"added_tokens", nlohmann::json::array()},
                      {"normalizer", nullptr},    {"pre_tokenizer", nullptr},
                      {"decoder", nullptr},       {"post_processor", nullptr},
                      {"model", std::move(model)}};
  json.update(others);
  return json;
}

/// Returns a vocabulary whose ids are the indices of the tokens.
inline nlohmann::json vocab_of(const std::vector<std::string>& tokens) {
  auto vocab = nlohmann::json::object();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  return vocab;
}

inline nlohmann::json bpe(const std::vector<std::string>& tokens, nlohmann::json merges,
                          nlohmann::json options = nlohmann::json::object()) {
  nlohmann::json model{{"type", "BPE"}, {"vocab", vocab_of(tokens)}, {"merges", std::move(merges)}};
  model.update(options);
  return model;
}

inline nlohmann::json added_token(int64_t id, const std::string& content,
                                  nlohmann::json options = nlohmann::json::object()) {
  nlohmann::json token{{"id", id},        {"content", content}, {"single_word", false},
                       {"lstrip", false}, {"rstrip", false},    {"normalized", false},
                       {"special", false}};
  token.update(options);
  return token;
}

/// Small tokenizers that together have all parts.
inline std::vector<nlohmann::json> small_tokenizers() {
  using nlohmann::json;
  const json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", true},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  const json metaspace{
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", true}};
  const json special{{"[CLS]", {{"id", "[CLS]"}, {"ids", {0}}, {"tokens", {"[CLS]"}}}}};
  const json first{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}};
  const json text_a{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json text_b{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const json templates{{"type", "TemplateProcessing"},
                       {"single", {first, text_a}},
                       {"pair", {first, text_a, text_b}},
                       {"special_tokens", special}};
  const auto split = [](const json& pattern, const char* behavior) {
    return json{{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", false}};
  };
  const json bert{{"type", "BertNormalizer"},
                  {"clean_text", true},
                  {"handle_chinese_chars", true},
                  {"strip_accents", nullptr},
                  {"lowercase", true}};
  return {
      tokenizer_json(
          bpe({"a", "b", "c", "ab", "abc", "Ġ", "Ġa"},
              json::parse(R"(["a b", ["ab", "c"], ["Ġ", "a"]])"),
              {{"ignore_merges", true}, {"unk_token", nullptr}, {"dropout", nullptr}}),
          {{"normalizer", {{"type", "NFC"}}},
           {"pre_tokenizer",
            {{"type", "Sequence"},
             {"pretokenizers",
              {split({{"Regex", "\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}}, "Isolated"),
               split({{"String", "b"}}, "MergedWithPrevious"), byte_level}}}},
           {"post_processor", {{"type", "Sequence"}, {"processors", {byte_level, templates}}}},
           {"decoder", byte_level},
           {"added_tokens",
            {added_token(7, "<X>", {{"special", true}, {"rstrip", true}}),
             added_token(8, "<Y>", {{"normalized", true}, {"single_word", true}})}}}),
      tokenizer_json({{"type", "WordPiece"},
                      {"unk_token", "[UNK]"},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 10},
                      {"vocab", vocab_of({"[CLS]", "[UNK]", "[SEP]", "a", "##b", "c", "."})}},
                     {{"normalizer", bert},
                      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                      {"post_processor",
                       {{"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 0}}}},
                      {"truncation",
                       {{"direction", "Right"},
                        {"max_length", 8},
                        {"strategy", "LongestFirst"},
                        {"stride", 0}}},
                      {"padding",
                       {{"strategy", {{"Fixed", 8}}},
                        {"direction", "Right"},
                        {"pad_to_multiple_of", nullptr},
                        {"pad_id", 0},
                        {"pad_type_id", 0},
                        {"pad_token", "[PAD]"}}}}),
      tokenizer_json(
          {{"type", "Unigram"},
           {"unk_id", 0},
           {"byte_fallback", false},
           {"vocab",
            json::parse(
                R"([["<unk>", 0.0], ["▁", -2.5], ["a", -1.25], ["▁a", -3], ["ab", -1e-3]])")}},
          {{"normalizer",
            {{"type", "Sequence"},
             {"normalizers",
              {{{"type", "Nmt"}},
               // The rule U+0001 -> b.
               {{"type", "Precompiled"},
                {"precompiled_charsmap", "IAAAAAAIAAAAAAAAAAAAAAERAAAAAAAAAAAAAAAAAAAAAACAYgA="}},
               {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}},
               {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}},
               {{"type", "StripAccents"}},
               {{"type", "Lowercase"}},
               {{"type", "NFKC"}}}}}},
           {"pre_tokenizer", metaspace},
           {"decoder", metaspace}}),
      tokenizer_json(
          bpe({"<unk>", "▁", "a", "▁a", "<0xC3>", "<0xA9>"}, {"▁ a"},
              {{"unk_token", "<unk>"}, {"byte_fallback", true}, {"fuse_unk", true}}),
          {{"normalizer",
            {{"type", "Sequence"},
             {"normalizers",
              {{{"type", "Prepend"}, {"prepend", "▁"}},
               {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
           {"decoder",
            {{"type", "Sequence"},
             {"decoders",
              {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
               {{"type", "ByteFallback"}},
               {{"type", "Fuse"}},
               {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
           {"post_processor",
            {{"type", "RobertaProcessing"},
             {"sep", {"a", 2}},
             {"cls", {"a", 2}},
             {"trim_offsets", true},
             {"add_prefix_space", false}}}}),
      tokenizer_json(
          {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab_of({"?", "a", "b"})}},
          {{"pre_tokenizer",
            {{"type", "Sequence"},
             {"pretokenizers",
              {{{"type", "Whitespace"}},
               {{"type", "WhitespaceSplit"}},
               {{"type", "Digits"}, {"individual_digits", true}},
               {{"type", "Punctuation"}, {"behavior", "Contiguous"}},
               {{"type", "CharDelimiterSplit"}, {"delimiter", "x"}},
               {{"type", "FixedLength"}, {"length", 3}}}}}},
           {"decoder",
            {{"type", "Sequence"},
             {"decoders",
              {{{"type", "CTC"},
                {"pad_token", "?"},
                {"word_delimiter_token", "|"},
                {"cleanup", true}},
               {{"type", "BPEDecoder"}, {"suffix", "</w>"}}}}}}}),
  };
}

}  // namespace attend
