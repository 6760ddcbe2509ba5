#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "support/random_text.h"
#include "support/seed.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> tokens_of(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (int64_t id = 0; id < vocabulary.size(); ++id) tokens.push_back(vocabulary.decode({id}));
  return tokens;
}

TEST(VocabularyOfWords, IdsAreInOrderOfFrequencyThenCodePoints) {
  EXPECT_THAT(tokens_of(Vocabulary::of_words("b ü a\tb z a c")),
              ElementsAre("a", "b", "c", "z", "ü"));
}

TEST(VocabularyOfWords, BoundedVocabularyMapsRareWordsToUnk) {
  const auto words = Vocabulary::of_words("b a c b a b", 3);
  EXPECT_THAT(tokens_of(words), ElementsAre("<unk>", "b", "a"));
  EXPECT_THAT(words.encode("a c never b"), ElementsAre(2, 0, 0, 1));
}

TEST(VocabularyOfWords, UnboundedVocabularyThrowsForUnknownWords) {
  const auto words = Vocabulary::of_words("a b");
  EXPECT_THAT([&] { words.encode("a c"); }, ThrowsMessage<InputError>(HasSubstr("word 'c'")));
}

TEST(VocabularyOfWords, UnkInTheTextIsTheUnkToken) {
  EXPECT_THAT(tokens_of(Vocabulary::of_words("a <unk> <unk>", 5)), ElementsAre("<unk>", "a"));
  const auto words = Vocabulary::of_words("a <unk> <unk>");
  EXPECT_THAT(words.encode("a b"), ElementsAre(1, 0));
}

TEST(VocabularyOfWords, LineBreaksAreTokensIfTheTextContainsThem) {
  const auto words = Vocabulary::of_words("b a\n\nb", 4);
  EXPECT_THAT(tokens_of(words), ElementsAre("<unk>", "\n", "b", "a"));
  EXPECT_THAT(words.encode("a\n\n b\r\n"), ElementsAre(3, 1, 1, 2, 1));
  EXPECT_EQ(words.decode({1, 2, 3, 1, 1, 2, 1}), "\nb a\n\nb\n");
  EXPECT_EQ(words.token(1), "\\x0a");

  const auto line = Vocabulary::of_words("a b");
  EXPECT_THAT(line.encode("b\na"), ElementsAre(1, 0));
}

TEST(VocabularyOfWords, DecodingChangesWhitespaceOnly) {
  seed_afresh();
  for (int i = 0; i < 50; ++i) {
    const auto text = "word\n" + random_text(60);
    const auto words = Vocabulary::of_words(text);
    const auto ids = words.encode(text);
    EXPECT_EQ(words.encode(words.decode(ids)), ids) << text;
    const auto copy = Vocabulary::from_json(words.to_json());
    EXPECT_EQ(copy.encode(text), ids) << text;
  }
}

TEST(VocabularyOfWords, TextsWithoutWordsAndTooSmallSizesThrow) {
  EXPECT_THAT([] { Vocabulary::of_words(" \n\t"); },
              ThrowsMessage<InputError>(HasSubstr("the text contains no words")));
  EXPECT_THAT([] { Vocabulary::of_words("a\n", 2); },
              ThrowsMessage<InputError>(HasSubstr("vocabulary size (2) must be at least 3")));
  EXPECT_NO_THROW(Vocabulary::of_words("a\n", 3));
  EXPECT_THROW(Vocabulary::of_words("a", -1), InputError);
  EXPECT_THROW(Vocabulary::of_words("a \xFF"), InputError);
  EXPECT_THROW(Vocabulary(TokenizerKind::word, {"\xFF"}), InputError);
}

}  // namespace
}  // namespace attend
