#include "attend/io/vocabulary.h"

#include "attend/input_error.h"
#include "attend/io/byte_tokenizer.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Vocabulary, CharacterIdsAreInCodePointOrder) {
  const auto vocabulary = Vocabulary::of_characters("banana é𝄞\n");
  EXPECT_EQ(vocabulary.size(), 7);
  EXPECT_EQ(vocabulary.decode({0}), "\n");
  EXPECT_EQ(vocabulary.token(5), "é");
  EXPECT_EQ(vocabulary.token(6), "𝄞");
  EXPECT_THAT(vocabulary.encode("ban"), ElementsAre(3, 2, 4));
}

TEST(Vocabulary, DecodeInvertsEncode) {
  const std::string text = "Grüße, 世界!\n";
  const auto characters = Vocabulary::of_characters(text);
  EXPECT_EQ(characters.decode(characters.encode(text)), text);

  const Vocabulary words(TokenizerKind::word, {"bank", "the", "river"});
  EXPECT_EQ(words.decode(words.encode("  the river\tbank ")), "the river bank");
}

TEST(Vocabulary, JsonRoundTrip) {
  const Vocabulary words(TokenizerKind::word, {"\"quoted\"", "ü", "\\", "\n"});
  const auto again = Vocabulary::from_json(words.to_json());
  EXPECT_EQ(again.kind(), TokenizerKind::word);
  ASSERT_EQ(again.size(), words.size());
  for (int64_t id = 0; id < words.size(); ++id) EXPECT_EQ(again.token(id), words.token(id));
}

TEST(Vocabulary, ErrorsNameTheUnknownToken) {
  const Vocabulary words(TokenizerKind::word, {"river", "bank"});
  EXPECT_THAT(
      [&] { words.encode("river\nriver beach"); },
      throws_naming<InputError>("word", "'beach'", "line 2, column 7", "2 tokens", "vocabulary"));
  const auto characters = Vocabulary::of_characters("abc\n");
  EXPECT_THAT([&] { characters.encode("ab\naß"); },
              throws_naming<InputError>("character", "'ß'", "line 2, column 2", "4 tokens"));
  EXPECT_THAT([&] { characters.encode("a\xFF"); },
              ThrowsMessage<InputError>(HasSubstr("offset 1")));
}

TEST(Vocabulary, UnknownCharactersAreReplacedByTheUnknownToken) {
  const auto replacing = Vocabulary::of_characters("ab", UnknownCharacters::replace);
  const auto again = Vocabulary::from_json(replacing.to_json());
  for (const auto& vocabulary : {replacing, again}) {
    EXPECT_THAT(vocabulary.encode("aßb"), ElementsAre(1, 0, 2));
    EXPECT_EQ(vocabulary.decode({1, 0, 2}), "a<unk>b");
  }
}

TEST(Vocabulary, LineBreaksOfWindowsAreThoseOfTheVocabulary) {
  for (const auto unknown : {UnknownCharacters::error, UnknownCharacters::replace}) {
    const auto lf = Vocabulary::of_characters("ab\n", unknown);
    EXPECT_EQ(lf.encode("a\r\nb\r\n"), lf.encode("a\nb\n"));
    const auto crlf = Vocabulary::of_characters("ab\r\n", unknown);
    EXPECT_EQ(crlf.decode(crlf.encode("a\r\nb\n")), "a\r\nb\n");
  }
  const auto lf = Vocabulary::of_characters("ab\n");
  for (const char* text : {"a\rb", "a\r", "\r\r\n"})
    EXPECT_THAT([&] { lf.encode(text); }, throws_naming<InputError>("'\\x0d'")) << text;
  EXPECT_THAT([&] { Vocabulary::of_characters("ab").encode("a\r\nb"); },
              throws_naming<InputError>("'\\x0d'"));
}

TEST(Vocabulary, TellsTextsWithoutAKnownToken) {
  const auto vocabulary = Vocabulary::of_words("the the cat", 3);  // <unk>, the, cat
  const auto all_unknown_in = [&](const char* text) {
    return all_unknown(vocabulary, vocabulary.encode(text));
  };
  EXPECT_TRUE(all_unknown_in("a dog"));
  EXPECT_FALSE(all_unknown_in("the dog"));
  EXPECT_FALSE(all_unknown_in(""));
  const auto characters = Vocabulary::of_characters("ab");
  EXPECT_FALSE(all_unknown(characters, {0, 0}));
  EXPECT_FALSE(all_unknown(ByteTokenizer(), {0, 0}));
}

TEST(Vocabulary, ErrorsNameOptionsAndPositionOnRequest) {
  const auto encode = [] { return Vocabulary::of_characters("ab").encode("aß"); };
  const auto with_options = [&] {
    return changing_unknown_token(&UnknownTokenError::with_options, encode);
  };
  const auto without_place = [&] {
    return changing_unknown_token(&UnknownTokenError::without_place, with_options);
  };
  const auto with_fixed_tokenizer = [&] {
    return changing_unknown_token(&UnknownTokenError::with_fixed_tokenizer, encode);
  };
  using testing::AllOf;
  using testing::Not;
  EXPECT_THAT(with_fixed_tokenizer, ThrowsMessage<UnknownTokenError>(AllOf(
                                        Names("'ß'"), Names("line 1, column 2"), Names("2 tokens"),
                                        Names("run"), Not(HasSubstr("tokenizer =")))));
  EXPECT_THAT(encode, ThrowsMessage<UnknownTokenError>(AllOf(
                          Names("'ß'"), Names("line 1, column 2"), Not(HasSubstr("tokenizer =")))));
  EXPECT_THAT(with_options,
              throws_naming<UnknownTokenError>("'ß'", "line 1, column 2", "2 tokens",
                                               "unknown = replace", "tokenizer = byte"));
  EXPECT_THAT(without_place, ThrowsMessage<UnknownTokenError>(
                                 AllOf(Names("'ß'"), Not(HasSubstr("line")), Names("2 tokens"),
                                       Names("unknown = replace"))));
}

TEST(Vocabulary, DuplicateOrNoTokensThrow) {
  EXPECT_THAT(
      [] {
        Vocabulary(TokenizerKind::word, {"a", "b", "a"});
      },
      ThrowsMessage<InputError>(HasSubstr("duplicate token 'a'")));
  EXPECT_THROW(Vocabulary(TokenizerKind::word, {}), InputError);
  EXPECT_THROW(Vocabulary(TokenizerKind::byte, {"a"}), InputError);
}

TEST(Vocabulary, InvalidJsonThrows) {
  for (const char* json :
       {"", "[", "[]", "{}", R"({"tokenizer": "syllable", "tokens": ["a"]})",
        R"({"tokenizer": "word", "tokens": [1]})", R"({"tokenizer": "word"})",
        R"({"tokenizer": "word", "tokens": []})", R"({"tokenizer": 3, "tokens": ["a"]})"}) {
    EXPECT_THROW(Vocabulary::from_json(json), InputError) << json;
  }
}

}  // namespace
}  // namespace attend
