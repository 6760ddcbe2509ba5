#include "attend/tokenizers/text_tokenizer.h"

#include "attend/input_error.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"

#include <gmock/gmock.h>
#include <regex.h>

#include <chrono>
#include <fstream>

// The expected values are those of the Python package tokenizers 0.23.3.
namespace attend {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

using Strings = std::vector<std::string>;

TextTokenizer tokenizer_of(const json& content) {
  return TextTokenizer::parse(content.dump());
}

/// Returns the tokens of a text without special tokens.
Strings tokens_of(const TextTokenizer& tokenizer, std::string_view text) {
  Strings tokens;
  for (const auto id : tokenizer.encode(text, {.add_special_tokens = false}).ids) {
    tokens.push_back(tokenizer.id_to_token(id).value());
  }
  return tokens;
}

/// Returns the pieces into which pre-tokenizers split a text, all of which are in `vocabulary`.
Strings pieces_of(const json& pre_tokenizer, std::string_view text, const Strings& vocabulary) {
  const json model{{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab_of(vocabulary)}};
  return tokens_of(tokenizer_of(tokenizer_json(model, {{"pre_tokenizer", pre_tokenizer}})), text);
}

json split(const std::string& regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
}

/// A tokenizer with one token per character of `characters`.
json of_characters(const Strings& characters, json others = json::object()) {
  return tokenizer_json(bpe(characters, json::array()), std::move(others));
}

/// Returns the normalized text. All of its characters must be in `characters`.
std::string normalized(const json& normalizer, std::string_view text, const Strings& characters) {
  std::string result;
  const auto tokenizer = tokenizer_of(of_characters(characters, {{"normalizer", normalizer}}));
  for (const auto& token : tokens_of(tokenizer, text)) result += token;
  return result;
}

json bert_normalizer(json options = json::object()) {
  json normalizer{{"type", "BertNormalizer"},
                  {"clean_text", true},
                  {"handle_chinese_chars", true},
                  {"strip_accents", nullptr},
                  {"lowercase", true}};
  normalizer.update(options);
  return normalizer;
}

json word_piece(const Strings& vocabulary, int max_characters = 100) {
  return {{"type", "WordPiece"},
          {"unk_token", "[UNK]"},
          {"continuing_subword_prefix", "##"},
          {"max_input_chars_per_word", max_characters},
          {"vocab", vocab_of(vocabulary)}};
}

TEST(TextTokenizer, LookaheadLeavesTheLastBlankToTheNextPiece) {
  EXPECT_THAT(pieces_of(split("\\s+(?!\\S)|\\s+"), "a   b  ", {"?", "a", "b", " ", "  "}),
              ElementsAre("a", "  ", " ", "b", "  "));
}

TEST(TextTokenizer, PlusAfterABoundedRepeatRepeatsIt) {
  const Strings vocabulary{"?", "123", "456", "7", "1234567"};
  EXPECT_THAT(pieces_of(split("\\p{N}{1,3}"), "1234567", vocabulary),
              ElementsAre("123", "456", "7"));
  EXPECT_THAT(pieces_of(split("\\p{N}{1,3}+"), "1234567", vocabulary), ElementsAre("1234567"));
}

TEST(TextTokenizer, AnchorsMatchAtEveryLine) {
  EXPECT_THAT(pieces_of(split("^a"), "aa\na", {"?", "a", "a\n"}), ElementsAre("a", "a\n", "a"));
  EXPECT_THAT(pieces_of(split("\\h+"), "xfe", {"?", "x", "fe"}), ElementsAre("x", "fe"));
}

TEST(TextTokenizer, CaseInsensitivePatternMatchesLongS) {
  EXPECT_THAT(pieces_of(split("(?i:'s)"), "a'ſb", {"?", "a", "'ſ", "b"}),
              ElementsAre("a", "'ſ", "b"));
}

TEST(TextTokenizer, RegexKnowsCharactersNewerThanItsTables) {
  // U+11F04, a letter of Unicode 15.
  EXPECT_THAT(pieces_of(split("\\p{L}+"), "1\U00011F04a", {"?", "1", "\U00011F04a"}),
              ElementsAre("1", "\U00011F04a"));
}

TEST(TextTokenizer, LongestAddedTokenWins) {
  const json added{added_token(1, "ab"), added_token(2, "abc")};
  EXPECT_THAT(tokens_of(tokenizer_of(of_characters({"x"}, {{"added_tokens", added}})), "abcab"),
              ElementsAre("abc", "ab"));
}

TEST(TextTokenizer, RstripTakesTheBlanksThatFollow) {
  const json added{added_token(3, "<X>", {{"rstrip", true}})};
  const auto tokenizer = tokenizer_of(of_characters(
      {"a", "b", "▁"}, {{"added_tokens", added}, {"pre_tokenizer", metaspace("first")}}));
  EXPECT_THAT(tokens_of(tokenizer, "a <X>  b"), ElementsAre("▁", "a", "▁", "<X>", "b"));
}

TEST(TextTokenizer, SingleWordTokenIsNotFoundInAWord) {
  const json added{added_token(5, "<X>", {{"single_word", true}})};
  const auto tokenizer =
      tokenizer_of(of_characters({"a", "X", "<", ">", " "}, {{"added_tokens", added}}));
  EXPECT_THAT(tokens_of(tokenizer, "a<X>a"), ElementsAre("a", "<", "X", ">", "a"));
  EXPECT_THAT(tokens_of(tokenizer, "a <X> a"), ElementsAre("a", " ", "<X>", " ", "a"));
}

TEST(TextTokenizer, NormalizedTokenMatchesTheNormalizedText) {
  const json added{added_token(4, "<YES>", {{"normalized", true}}), added_token(5, "<NO>")};
  const auto tokenizer = tokenizer_of(of_characters(
      {"n", "o", "<", ">"}, {{"added_tokens", added}, {"normalizer", {{"type", "Lowercase"}}}}));
  EXPECT_THAT(tokenizer.encode("<YES><yes>").ids, ElementsAre(4, 4));
  EXPECT_THAT(tokenizer.encode("<NO><no>").ids, ElementsAre(5, 2, 0, 1, 3));
}

TEST(TextTokenizer, MetaspacePrependsAtTheStartOrToAllPieces) {
  const json added{added_token(2, "<X>")};
  const auto tokens = [&](const char* scheme, std::string_view text) {
    return tokens_of(
        tokenizer_of(of_characters(
            {"a", "▁"}, {{"added_tokens", added}, {"pre_tokenizer", metaspace(scheme)}})),
        text);
  };
  EXPECT_THAT(tokens("first", "a<X>a"), ElementsAre("▁", "a", "<X>", "a"));
  EXPECT_THAT(tokens("always", "a<X>a"), ElementsAre("▁", "a", "<X>", "▁", "a"));
  EXPECT_THAT(tokens("never", "a<X>a"), ElementsAre("a", "<X>", "a"));
  EXPECT_THAT(tokens("first", " a"), ElementsAre("▁", "a"));
}

TEST(TextTokenizer, BpeWithoutUnknownTokenDropsUnknownCharacters) {
  EXPECT_THAT(tokens_of(tokenizer_of(of_characters({"a"})), "axya"), ElementsAre("a", "a"));
}

TEST(TextTokenizer, FuseUnkJoinsNeighbours) {
  const auto tokens = [](bool fuses) {
    const json options{{"unk_token", "?"}, {"fuse_unk", fuses}};
    return tokens_of(tokenizer_of(tokenizer_json(bpe({"?", "a"}, json::array(), options))), "axya");
  };
  EXPECT_THAT(tokens(true), ElementsAre("a", "?", "a"));
  EXPECT_THAT(tokens(false), ElementsAre("a", "?", "?", "a"));
}

TEST(TextTokenizer, ByteFallbackNeedsATokenForEachByteOfACharacter) {
  const json options{{"unk_token", "?"}, {"byte_fallback", true}};
  const auto tokenizer =
      tokenizer_of(tokenizer_json(bpe({"?", "<0xC3>", "<0xA9>"}, json::array(), options)));
  EXPECT_THAT(tokens_of(tokenizer, "éè"), ElementsAre("<0xC3>", "<0xA9>", "?"));
}

TEST(TextTokenizer, IncompleteBytesDecodeToOneReplacementEach) {
  const auto tokenizer = tokenizer_of(
      of_characters({"<0xE2>", "<0x82>", "<0xAC>"}, {{"decoder", {{"type", "ByteFallback"}}}}));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 1}), "\uFFFD\uFFFD");
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 1, 2}), "€");
}

TEST(StreamingDecoder, ReturnsARunOfByteTokensWhenItEnds) {
  const json added{added_token(4, "<s>", {{"special", true}})};
  const auto tokenizer = tokenizer_of(
      of_characters({"<0xE2>", "<0x82>", "<0xAC>", "a"},
                    {{"decoder", {{"type", "ByteFallback"}}}, {"added_tokens", added}}));
  StreamingDecoder decoder(tokenizer);
  for (const int64_t id : {0, 1, 2}) EXPECT_EQ(decoder.step(id), "");
  EXPECT_EQ(decoder.step(3), "€a");
  // An invalid byte makes all bytes of the run invalid, also after a special token.
  for (const int64_t id : {0, 1, 2, 4, 1}) EXPECT_EQ(decoder.step(id), "");
  EXPECT_EQ(decoder.step(3), "\uFFFD\uFFFD\uFFFD\uFFFDa");
  EXPECT_EQ(decoder.step(2), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 4, 1, 3, 2}),
            "€a\uFFFD\uFFFD\uFFFD\uFFFDa\uFFFD");
}

TEST(StreamingDecoder, ReturnsACharacterWhenItIsComplete) {
  StreamingDecoder decoder(
      tokenizer_of(of_characters({"â", "Ĥ", "¬", "a"}, {{"decoder", {{"type", "ByteLevel"}}}})));
  EXPECT_EQ(decoder.step(3), "a");
  EXPECT_EQ(decoder.step(0), "");
  EXPECT_EQ(decoder.step(1), "");
  EXPECT_EQ(decoder.step(2), "€");
  EXPECT_EQ(decoder.step(0), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(TextTokenizer, IgnoreMergesPrefersAWholeWord) {
  const auto tokens = [](bool ignores) {
    const auto model = bpe({"a", "b", "c", "bc", "abc"}, {"b c"}, {{"ignore_merges", ignores}});
    return tokens_of(tokenizer_of(tokenizer_json(model)), "abc");
  };
  EXPECT_THAT(tokens(true), ElementsAre("abc"));
  EXPECT_THAT(tokens(false), ElementsAre("a", "bc"));
}

TEST(TextTokenizer, MergesAreStringsOrPairs) {
  for (const auto* merges : {R"(["a b"])", R"([["a", "b"]])"}) {
    const auto model = bpe({"a", "b", "ab"}, json::parse(merges));
    EXPECT_THAT(tokens_of(tokenizer_of(tokenizer_json(model)), "abb"), ElementsAre("ab", "b"));
  }
}

TEST(TextTokenizer, BertNormalizerStripsNonspacingMarksOnly) {
  const Strings characters{"a", "\u0903", "ο", "δ", "σ", "\u0378", " "};
  EXPECT_EQ(normalized(bert_normalizer(), "a\u0301\u0903", characters), "a\u0903");
  EXPECT_EQ(normalized({{"type", "StripAccents"}}, "a\u0301\u0903", characters), "a");
  EXPECT_EQ(normalized(bert_normalizer(), "ΟΔΟΣ", characters), "οδοσ");
  // An unassigned character is kept, a joiner is removed.
  EXPECT_EQ(normalized(bert_normalizer(), "a\u0378\u200D", characters), "a\u0378");
}

TEST(TextTokenizer, WordPieceOfAnUnknownTailOrALongWordIsUnknown) {
  const auto tokenizer = tokenizer_of(tokenizer_json(
      word_piece({"[UNK]", "a", "##b"}, 3), {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}}}));
  EXPECT_THAT(tokens_of(tokenizer, "ab abc abbb"), ElementsAre("a", "##b", "[UNK]", "[UNK]"));
}

TEST(TextTokenizer, FileSetsPaddingAndTruncation) {
  const json others{
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"post_processor",
       {{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}}},
      {"truncation",
       {{"direction", "Right"}, {"max_length", 5}, {"strategy", "LongestFirst"}, {"stride", 0}}},
      {"padding",
       {{"strategy", {{"Fixed", 5}}},
        {"direction", "Right"},
        {"pad_to_multiple_of", nullptr},
        {"pad_id", 0},
        {"pad_type_id", 0},
        {"pad_token", "[PAD]"}}}};
  auto tokenizer =
      tokenizer_of(tokenizer_json(word_piece({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"}), others));
  EXPECT_EQ(tokenizer.truncation()->max_length, 5);
  EXPECT_EQ(tokenizer.padding()->length, 5);
  const auto encoding = tokenizer.encode("a a");
  EXPECT_THAT(encoding.ids, ElementsAre(2, 4, 4, 3, 0));
  EXPECT_THAT(encoding.attention_mask, ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT(tokenizer.encode("a a a a a a").ids, ElementsAre(2, 4, 4, 4, 3));
  EXPECT_THAT(tokenizer.encode_pair("a", "a").type_ids, ElementsAre(0, 0, 0, 1, 1));
  tokenizer.set_padding(std::nullopt);
  tokenizer.set_truncation(std::nullopt);
  EXPECT_THAT(tokenizer.encode("a a a a a a").ids, ElementsAre(2, 4, 4, 4, 4, 4, 4, 3));
  tokenizer.set_padding(PaddingOptions{});
  const auto batch = tokenizer.encode_batch(Strings{"a", "a a"});
  EXPECT_THAT(batch[0].ids, ElementsAre(2, 4, 3, 0));
  EXPECT_THAT([&] { tokenizer.set_truncation(TruncationOptions{.max_length = 1}); },
              throws_naming<InputError>("max_length", "1", "2"));
}

TEST(TextTokenizer, DecoderOfBpeKeepsBlanksBeforePunctuation) {
  const auto tokenizer =
      tokenizer_of(of_characters({"a", "Ġ", "."}, {{"decoder", {{"type", "ByteLevel"}}}}));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 1, 2}), "a .");
}

TEST(TextTokenizer, VocabSizeCountsNewAddedTokens) {
  const json added{added_token(0, "a"), added_token(2, "<X>", {{"special", true}})};
  const auto tokenizer = tokenizer_of(of_characters({"a", "b"}, {{"added_tokens", added}}));
  EXPECT_EQ(tokenizer.vocab_size(), 3);
  EXPECT_EQ(tokenizer.token_to_id("<X>"), 2);
  EXPECT_EQ(tokenizer.token_to_id("c"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(3), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.added_tokens().size(), 2U);
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 2, 1, 99}), "a b");
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{0, 2}, {.skip_special_tokens = false}), "a <X>");
}

TEST(TextTokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const auto tokenizer = tokenizer_of(of_characters({"a", "\uFFFD"}));
  EXPECT_THAT(tokens_of(tokenizer,
                        "a\xE2\x82"
                        "a\xFF"),
              ElementsAre("a", "\uFFFD", "a", "\uFFFD"));
  EXPECT_THAT(tokens_of(tokenizer, ""), IsEmpty());
}

TEST(TextTokenizer, ReadsAllParts) {
  for (const auto& content : small_tokenizers()) {
    const auto tokenizer = tokenizer_of(content);
    tokenizer.decode(tokenizer.encode("ab <X> 123 a.").ids);
  }
}

// Damaged and unsupported files.

TEST(TextTokenizer, MessageNamesFileKeyFoundAndExpected) {
  const TemporaryDirectory folder;
  auto content = of_characters(
      {"a"}, {{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Rot13"}}}}}}});
  std::ofstream(folder / "tokenizer.json") << content;
  EXPECT_THAT(
      [&] { TextTokenizer::load(folder / "tokenizer.json"); },
      throws_naming<InputError>((folder / "tokenizer.json").string(),
                                "normalizer.normalizers[0].type", "Rot13", "NFC", "Lowercase"));
  EXPECT_THAT([&] { TextTokenizer::load(folder / "missing.json"); },
              throws_naming<InputError>("missing.json"));
}

TEST(TextTokenizer, RefusesUnknownKeys) {
  EXPECT_THAT(
      [] {
        tokenizer_of(of_characters({"a"}, {{"colour", 3}}));
      },
      throws_naming<InputError>("colour", "3"));
  EXPECT_THAT(
      [] {
        tokenizer_of(tokenizer_json(bpe({"a"}, json::array(), {{"dropout", 0.5}})));
      },
      throws_naming<InputError>("model.dropout", "0.5"));
}

TEST(TextTokenizer, RefusesTwoEqualIds) {
  auto content = of_characters({"a", "b"});
  content["model"]["vocab"]["b"] = 0;
  EXPECT_THAT([&] { tokenizer_of(content); },
              throws_naming<InputError>("model.vocab", "a", "b", "0"));
  EXPECT_THAT(
      [] {
        tokenizer_of(of_characters({"a"}, {{"added_tokens", {added_token(0, "<X>")}}}));
      },
      throws_naming<InputError>("added_tokens[0].id", "0", "1", "<X>"));
}

TEST(TextTokenizer, RefusesTruncatedAndOtherFiles) {
  const auto text = of_characters({"a"}).dump();
  EXPECT_THAT([&] { TextTokenizer::parse(text.substr(0, text.size() / 2)); },
              throws_naming<InputError>("JSON", "offset"));
  EXPECT_THAT([] { TextTokenizer::parse(R"({"tokenizer": "byte"})"); },
              throws_naming<InputError>("model", "tokenizer"));
  EXPECT_THAT([] { TextTokenizer::parse("[]"); }, throws_naming<InputError>("object"));
  EXPECT_THAT(
      [] { TextTokenizer::parse(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})"); },
      throws_naming<InputError>("model.vocab", "a", "0", "1"));
  EXPECT_THAT([] { TextTokenizer::parse(R"({"model": {"vocab": {"a": 1.5}, "merges": []}})"); },
              throws_naming<InputError>("model.vocab", "a", "1.5"));
}

TEST(TextTokenizer, RefusesMergesOfUnknownTokens) {
  EXPECT_THAT(
      [] {
        tokenizer_of(tokenizer_json(bpe({"a", "b"}, {"a b"})));
      },
      throws_naming<InputError>("model.merges[0]", "ab"));
  EXPECT_THAT(
      [] {
        tokenizer_of(tokenizer_json(bpe({"a", "b"}, {"ab"})));
      },
      throws_naming<InputError>("model.merges[0]", "ab"));
}

TEST(TextTokenizer, RefusesLongRegularExpressions) {
  const auto pre_tokenizer = split(std::string(10'000'000, 'a'));
  EXPECT_THAT(
      [&] {
        tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", pre_tokenizer}}));
      },
      throws_naming<InputError>("pre_tokenizer.pattern.Regex", "10000000", "65536"));
  EXPECT_THAT(
      [] {
        tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", split("(")}}));
      },
      throws_naming<InputError>("pre_tokenizer.pattern.Regex"));
}

/// Oniguruma has a function of this name too.
TEST(TextTokenizer, LeavesTheRegularExpressionsOfLibcInPlace) {
  regex_t digits{};
  ASSERT_EQ(::regcomp(&digits, "^[0-9]+[.]$", REG_EXTENDED), 0);
  EXPECT_EQ(::regexec(&digits, "12.", 0, nullptr, 0), 0);
  EXPECT_EQ(::regexec(&digits, "12", 0, nullptr, 0), REG_NOMATCH);
  ::regfree(&digits);
}

TEST(TextTokenizer, StopsCatastrophicBacktracking) {
  const auto tokenizer =
      tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", split("(a+)+$|(a|a)*b")}}));
  EXPECT_THAT([&] { tokenizer.encode(std::string(5000, 'a') + "c"); },
              throws_naming<InputError>("5001", "steps"));
}

/// A string may be the regular expression of a part, a token, or the name of a type. Each text
/// takes its turn.
TEST(TextTokenizer, EachStringMayBeLongOrSlow) {
  const std::vector<std::string> hostile{std::string(100'000, '('), "(a+)+$|(a|a)*b",
                                         "((a{1000}){1000}){1000}", "(?<n>a\\g<n>*)*",
                                         std::string(70'000, 'a')};
  std::size_t turn = 0;
  for (const auto& valid : small_tokenizers()) {
    const auto values = valid.flatten();
    for (const auto& [place, value] : values.items()) {
      if (!value.is_string()) continue;
      const auto& text = hostile[turn++ % hostile.size()];
      auto changed = valid;
      changed[json::json_pointer(place)] = text;
      const auto start = std::chrono::steady_clock::now();
      try {
        const auto tokenizer = TextTokenizer::parse(changed.dump());
        tokenizer.decode(tokenizer.encode("ab <X> " + std::string(2000, 'a') + "c").ids);
      } catch (const InputError& error) {
        EXPECT_STRNE(error.what(), "") << place << ": " << text.substr(0, 40);
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10))
          << place << ": " << text.substr(0, 40);
    }
  }
}

TEST(TextTokenizer, AllSearchesInATextShareTheSteps) {
  // Each search takes 200,000 steps.
  const auto slow = split("(?:a|a|a){11}b|[\\s\\S]");
  const auto tokenizer = tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", slow}}));
  EXPECT_THAT([&] { tokenizer.encode(std::string(100, 'a')); },
              throws_naming<InputError>("100", "steps"));
  const json pieces{{"type", "Sequence"},
                    {"pretokenizers", {{{"type", "FixedLength"}, {"length", 11}}, slow}}};
  EXPECT_THAT(
      [&] {
        tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", pieces}}))
            .encode(std::string(1100, 'a'));
      },
      throws_naming<InputError>("11", "steps"));
  const json replace{{"type", "Replace"}, {"pattern", slow["pattern"]}, {"content", "a"}};
  const auto other = tokenizer_of(of_characters(
      {std::string(11, 'a'), "<X>"},
      {{"normalizer", replace}, {"decoder", replace}, {"added_tokens", {added_token(1, "<X>")}}}));
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::string(11, 'a') + "<X>";
  EXPECT_THAT([&] { other.encode(text); }, throws_naming<InputError>("11", "steps"));
  EXPECT_THAT([&] { other.decode(std::vector<int64_t>(100, 0)); },
              throws_naming<InputError>("11", "steps"));
}

TEST(TextTokenizer, OrdinaryPatternsTakeLongTexts) {
  const auto gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const auto llama3 =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  std::string mixed;
  while (mixed.size() < 300'000) mixed += "Ab's 12, !" + std::string(mixed.size() % 5000, ' ');
  for (const auto* pattern : {gpt2, llama3}) {
    auto pre_tokenizer = split(pattern);
    pre_tokenizer["behavior"] = "Removed";
    const auto tokenizer = tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", pre_tokenizer}}));
    for (const char character : {'a', 'A', ' ', '\n', '1', '!'}) {
      EXPECT_THAT(tokenizer.encode(std::string(300'000, character)).ids, IsEmpty());
    }
    EXPECT_THAT(tokenizer.encode(mixed).ids, IsEmpty());
  }
}

TEST(TextTokenizer, LimitsTheGrowthInPreTokenizers) {
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const json pre_tokenizer{{"type", "Sequence"}, {"pretokenizers", json::array_t(40, byte_level)}};
  const auto tokenizer = tokenizer_of(of_characters({"a"}, {{"pre_tokenizer", pre_tokenizer}}));
  EXPECT_THAT([&] { tokenizer.encode("é The cat"); },
              throws_naming<InputError>("pre_tokenizer", "10 bytes"));
}

TEST(TextTokenizer, LimitsTheGrowthInPostProcessors) {
  const auto tokenizer = [](std::size_t texts, std::size_t specials, std::size_t ids) {
    const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const json special{{"SpecialToken", {{"id", "X"}, {"type_id", 0}}}};
    auto items = json::array_t(texts, text);
    items.insert(items.end(), specials, special);
    return tokenizer_of(of_characters(
        {"a"}, {{"post_processor",
                 {{"type", "TemplateProcessing"},
                  {"single", items},
                  {"pair", json::array()},
                  {"special_tokens",
                   {{"X", {{"id", "X"}, {"ids", json::array_t(ids, 0)}, {"tokens", {"X"}}}}}}}}}));
  };
  EXPECT_THAT([&] { tokenizer(10'000, 0, 0).encode(std::string(100'000, 'a')); },
              throws_naming<InputError>("post_processor", "100000 tokens", "1000000000"));
  EXPECT_THAT([&] { tokenizer(1, 200, 10'000); },
              throws_naming<InputError>("post_processor.single", "1010000", "1000000"));
  EXPECT_EQ(tokenizer(2, 3, 4).encode("aa").ids.size(), 16);
}

TEST(TextTokenizer, NamesAWordWithoutTokenAndUnknownToken) {
  const json model{{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab_of({"a"})}};
  EXPECT_THAT([&] { tokenizer_of(tokenizer_json(model)).encode("xyz"); },
              throws_naming<InputError>("xyz", "?"));
}

}  // namespace
}  // namespace attend
