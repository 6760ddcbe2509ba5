#include "attend/train/subword_tokenizer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "support/random_text.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <set>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kText =
    "the cat sat on the mat\nand the cat saw the other cat\n\n  the end of the cat\n";

/// A few tokens more than <unk>, the bytes and the characters.
SubwordTokenizer learn_a_few(const std::string& text) {
  const auto characters = split_characters(text);
  const std::set<std::string_view> distinct(characters.begin(), characters.end());
  return SubwordTokenizer::learn(text, 265 + static_cast<int64_t>(distinct.size()));
}

TEST(SubwordTokenizer, HasAsManyTokensAsAskedFor) {
  for (const int64_t size : {280, 285, 290}) {
    EXPECT_EQ(SubwordTokenizer::learn(kText, size).size(), size);
  }
}

TEST(SubwordTokenizer, JoinsWhatIsFrequent) {
  const auto tokenizer = SubwordTokenizer::learn(kText, 290);
  EXPECT_EQ(tokenizer.encode(" the cat").size(), 2u);
  EXPECT_EQ(tokenizer.token(tokenizer.encode(" the cat")[0]), "\u2581the");
  EXPECT_GT(tokenizer.encode("xyz").size(), 2u);
}

TEST(SubwordTokenizer, DecodesAnyTextThatItEncoded) {
  seed_afresh();
  for (int i = 0; i < 15; ++i) {
    const auto learned = kText + random_text(80);
    const auto tokenizer = learn_a_few(learned);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(learned)), learned);
    for (int j = 0; j < 30; ++j) {
      const auto text = random_text(60);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(SubwordTokenizer, KeepsTextsThatItsOwnHasNothingOf) {
  for (const std::string learned : {"", "a", "\n\n", "\t", "\u2581", "\u2585"}) {
    const auto tokenizer = SubwordTokenizer::learn(learned, learned == "a" ? 260 : 259);
    for (const std::string text : {"", " ", "  a  \n\n\tb \u2581\u2585\r\n", "\n", "<unk>\uFFFD"}) {
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << "learned from: " << learned;
    }
    const std::string zero("a\0b", 3);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(zero)), zero);
  }
}

TEST(SubwordTokenizer, ALineBreakIsOneToken) {
  const auto tokenizer = SubwordTokenizer::learn(kText, 280);
  const auto ids = tokenizer.encode("\n\n");
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(tokenizer.token(ids[0]), "\\x0a");
}

TEST(SubwordTokenizer, ShowsBytesAsNumbers) {
  const auto tokenizer = SubwordTokenizer::learn(kText, 280);
  const auto ids = tokenizer.encode("\u4E16");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(tokenizer.token(ids[0]), "\\xe4");
}

TEST(SubwordTokenizer, IsTheSameEachTimeAndFromItsFile) {
  seed_afresh();
  const auto text = kText + random_text(200);
  const auto one = learn_a_few(text);
  EXPECT_EQ(learn_a_few(text).model(), one.model());
  const auto loaded = SubwordTokenizer::from_model(one.model());
  EXPECT_EQ(loaded.files(), one.files());
  EXPECT_EQ(loaded.encode(text), one.encode(text));
}

TEST(SubwordTokenizer, LearnsFromOneLongLine) {
  std::string line;
  for (int i = 0; i < 3000; ++i) line += "again and ";
  EXPECT_LT(SubwordTokenizer::learn(line, 270).encode(line).size(), line.size() / 2);
}

TEST(SubwordTokenizer, RefusesSizesThatTheTextDoesNotGive) {
  // <unk>, a line break, 256 bytes; a, b and the space.
  EXPECT_THAT([] { SubwordTokenizer::learn("ab ab\tab\n", 260); },
              ThrowsMessage<InputError>("a subword vocabulary of 260 tokens is too small for this "
                                        "text: expected at least 261"));
  EXPECT_EQ(SubwordTokenizer::learn("ab ab\tab\n", 261).size(), 261);
  EXPECT_THAT([] { SubwordTokenizer::learn("ab ab\tab\n", 1000); },
              ThrowsMessage<InputError>("a subword vocabulary of 1000 tokens is too large for this "
                                        "text: expected at most 264"));
  EXPECT_EQ(SubwordTokenizer::learn("ab ab\tab\n", 264).size(), 264);
  EXPECT_THROW(SubwordTokenizer::learn("ab", int64_t{1} << 60), InputError);
  EXPECT_THROW(SubwordTokenizer::learn("ab", -1), InputError);
}

TEST(SubwordTokenizer, RefusesWhatIsNotUtf8AndUnknownNumbers) {
  EXPECT_THROW(SubwordTokenizer::learn("ab\xFF", 300), InputError);
  const auto tokenizer = SubwordTokenizer::learn(kText, 280);
  EXPECT_THAT([&] { tokenizer.encode("a\n\xFF"); },
              ThrowsMessage<InputError>(HasSubstr("byte 0xFF at offset 2")));
  EXPECT_THROW(tokenizer.decode({280}), std::out_of_range);
  EXPECT_THROW(tokenizer.token(-1), std::out_of_range);
}

TEST(SubwordTokenizer, RefusesModelsThatChangeText) {
  const auto model = SubwordTokenizer::learn(kText, 280).model();
  // A table of replacements that points anywhere, on which SentencePiece itself crashes:
  // normalizer_spec (3) of 15 bytes with precompiled_charsmap (2) of 13.
  const std::string table =
      "\x1A\x0F\x12\x0D" + std::string("\x08\0\0\0", 4) + "\xFF\xFF\xFF\xFF" + "\xFF\xFF\xFF\xFFz";
  EXPECT_THAT([&] { SubwordTokenizer::from_model(model + table); },
              ThrowsMessage<InputError>(HasSubstr("changes text")));
  EXPECT_THROW(SubwordTokenizer::from_model(model + "\x1A\x02\x18\x01"), InputError);  // a prefix
  EXPECT_NO_THROW(SubwordTokenizer::from_model(model));
}

}  // namespace
}  // namespace attend::train
