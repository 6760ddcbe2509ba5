#include "attend/io/subword_tokenizer.h"

#include "attend/input_error.h"
#include "support/random_text.h"
#include "support/seed.h"
#include "support/subwords.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <map>

namespace attend {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kText =
    "the cat sat on the mat\nand the cat saw the other cat\n\n  the end of the cat\n";

class SubwordTokenizerTest : public SubwordTest {};

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// Returns a text with enough different words for more than 100 BPE merges. Up to `most` pieces of
/// random text follow these words.
std::string varied_text(int64_t most) {
  std::string text = kText;
  for (int i = 0; i < 200; ++i) text += " w" + std::to_string(i * 7919);
  return text + "\n" + random_text(most);
}

/// Returns the text of each token of `text`.
std::vector<std::string> pieces(const SubwordTokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> all;
  for (const auto id : tokenizer.encode(text)) all.push_back(tokenizer.decode({id}));
  return all;
}

TEST_F(SubwordTokenizerTest, FrequentWordsBecomeTokens) {
  const auto tokenizer = SubwordTokenizer::train(kText, 285);
  EXPECT_EQ(tokenizer.size(), 285);
  EXPECT_THAT(pieces(tokenizer, "the cat of them"), ElementsAre("the", " cat", " of", " the", "m"));
}

TEST_F(SubwordTokenizerTest, TokensContainAtMostOneLeadingSpace) {
  const auto tokenizer =
      SubwordTokenizer::train(repeated("so in the  house,\n\tin the\n", 50), 284);
  EXPECT_THAT(pieces(tokenizer, " in  the\n\tin"),
              ElementsAre(" in", " ", " the", "\n", "\t", "in"));
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    const auto token = tokenizer.decode({id});
    if (token.size() < 2 || id == 0) continue;
    EXPECT_EQ(token.find_first_of("\n\t"), std::string::npos) << token;
    EXPECT_EQ(token.find(' ', 1), std::string::npos) << token;
  }
}

TEST_F(SubwordTokenizerTest, DecodeInvertsEncode) {
  seed_afresh();
  for (int i = 0; i < 15; ++i) {
    const auto training_text = varied_text(60);
    const auto tokenizer = SubwordTokenizer::train(training_text, 380);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(training_text)), training_text);
    for (int j = 0; j < 30; ++j) {
      const auto text = random_text(60);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST_F(SubwordTokenizerTest, ReservedCharactersRoundTrip) {
  const auto reserved =
      kText + "\u2581\u2585<unk><0x0A>\t\r\n" + std::string("\0\0a\0", 4) + "\uFFFD";
  const auto tokenizer = SubwordTokenizer::train(repeated(reserved, 20), 290);
  for (const auto& text :
       {reserved, reserved + reserved, " " + reserved + " ", std::string("\0", 1),
        std::string("\u2581"), std::string(" "), std::string()}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST_F(SubwordTokenizerTest, TrainingIsDeterministicAndModelsRoundTrip) {
  seed_afresh();
  const auto text = varied_text(60);
  const auto one = SubwordTokenizer::train(text, 380);
  EXPECT_EQ(SubwordTokenizer::train(text, 380).model(), one.model());
  const SubwordTokenizer loaded(one.model());
  EXPECT_EQ(loaded.files(), one.files());
  EXPECT_EQ(loaded.encode(text), one.encode(text));
}

TEST_F(SubwordTokenizerTest, TrainsOnLongLinesToTheirEnd) {
  const auto with_spaces = repeated("a cat ", 5000) + repeated("zebra ", 20);
  EXPECT_THAT(pieces(SubwordTokenizer::train(with_spaces, 275), " zebra"), ElementsAre(" zebra"));
  const auto without = repeated("\u4E16\u754C", 5000) + repeated("zebra", 4000);
  const auto tokenizer = SubwordTokenizer::train(without, 290);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(without)), without);
  EXPECT_EQ(tokenizer.encode("zebra").size(), 1u);
  EXPECT_LT(tokenizer.encode(without).size(), 4000u);
}

TEST_F(SubwordTokenizerTest, LongTextsAreEncodedWordByWord) {
  seed_afresh();
  const auto tokenizer = SubwordTokenizer::train(kText, 285);
  std::string text;
  std::vector<int64_t> expected;
  const std::array<std::string, 6> words{" the", " cat", " other", " mate", "  sand", " \u4E16"};
  for (int i = 0; i < 3000; ++i) {
    const auto& word = words[static_cast<std::size_t>(draw(0, 5))];
    text += word;
    const auto ids = tokenizer.encode(word);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(tokenizer.encode(text), expected);
}

/// Byte-pair encoding of a text without reserved characters, all words at once: merges the pair of
/// tokens with the lowest id again and again, since merges that were learned first have lower ids.
/// `ids`: of the tokens of the tokenizer, by text.
std::vector<int64_t> merged(const std::string& text, const std::map<std::string, int64_t>& ids) {
  std::vector<std::string> parts;
  for (const auto c : text) parts.emplace_back(1, c);
  while (true) {
    auto lowest = std::numeric_limits<int64_t>::max();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ids.find(parts[i] + parts[i + 1]);
      if (found == ids.end() || found->second >= lowest) continue;
      lowest = found->second;
      at = i;
    }
    if (lowest == std::numeric_limits<int64_t>::max()) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<int64_t> tokens;
  for (const auto& part : parts) tokens.push_back(ids.at(part));
  return tokens;
}

TEST_F(SubwordTokenizerTest, EncodesAsMergesOfTheWholeText) {
  seed_afresh();
  const auto text_of = [](int64_t length) {
    std::string text;
    for (int64_t i = 0; i < length; ++i) text += "abcd  e"[draw(0, 6)];
    return text;
  };
  const auto tokenizer = SubwordTokenizer::train(text_of(4000), 320);
  std::map<std::string, int64_t> ids;
  constexpr int64_t kFirstMerge = 257;  // after <unk> and the bytes
  for (int64_t id = kFirstMerge; id < tokenizer.size(); ++id) ids[tokenizer.decode({id})] = id;
  for (int i = 0; i < 50; ++i) {
    const auto text = text_of(draw(1, 300));
    EXPECT_EQ(tokenizer.encode(text), merged(text, ids)) << text;
  }
}

TEST_F(SubwordTokenizerTest, VocabularySizeOutOfRangeThrows) {
  const auto train = [](const std::string& text, int64_t size) {
    return [=] { SubwordTokenizer::train(text, size); };
  };
  for (const auto size : {-1, 0, 1, 256, 270}) {
    EXPECT_THAT(
        train(kText, size),
        ThrowsMessage<InputError>(HasSubstr(
            std::to_string(size) + " subwords: too few for this text, expected at least 271")));
  }
  for (const auto size : {int64_t{312}, int64_t{100'000}, int64_t{1} << 60}) {
    EXPECT_THAT(
        train(kText, size),
        ThrowsMessage<InputError>(HasSubstr(
            std::to_string(size) + " subwords: too many for this text, expected at most 311")));
  }
  EXPECT_EQ(SubwordTokenizer::train(kText, 271).size(), 271);
  EXPECT_EQ(SubwordTokenizer::train(kText, 311).size(), 311);
  for (const auto* text : {"", "\n\n"}) {
    EXPECT_THAT(train(text, 300), ThrowsMessage<InputError>(HasSubstr("nothing but line breaks")));
  }
}

TEST_F(SubwordTokenizerTest, InvalidUtf8Throws) {
  EXPECT_THROW(SubwordTokenizer::train(kText + "\xFF", 285), InputError);
  const auto tokenizer = SubwordTokenizer::train(kText, 285);
  EXPECT_THROW(tokenizer.encode("a \xC3"), InputError);
}

TEST_F(SubwordTokenizerTest, TokenEscapesUnprintableBytes) {
  const auto tokenizer = SubwordTokenizer::train(kText, 285);
  EXPECT_EQ(tokenizer.token(tokenizer.encode("\n")[0]), "\\x0a");
  EXPECT_EQ(tokenizer.token(tokenizer.encode("\u00E9")[1]), "\\xa9");
  EXPECT_EQ(tokenizer.token(tokenizer.encode(" cat")[0]), " cat");
  EXPECT_THROW(tokenizer.token(285), std::out_of_range);
  EXPECT_THROW(tokenizer.decode({-1}), std::out_of_range);
}

TEST_F(SubwordTokenizerTest, InvalidModelsThrow) {
  const auto model = SubwordTokenizer::train(kText, 285).model();
  for (const auto& other : {std::string(), std::string("{}"), std::string(100, '\0'),
                            model.substr(0, model.size() / 2), model.substr(1)}) {
    EXPECT_THAT([&] { SubwordTokenizer{other}; },
                ThrowsMessage<InputError>(HasSubstr("not a SentencePiece model")));
  }
  EXPECT_THROW(SubwordTokenizer(std::string(SubwordTokenizer::kMaxModelBytes + 1, 'a')),
               InputError);
}

TEST(SubwordTokenizer, ThrowsWithAddressSanitizer) {
  if (kSubwordsWork) GTEST_SKIP() << "only with AddressSanitizer";
  EXPECT_THAT([] { SubwordTokenizer::train(kText, 285); },
              ThrowsMessage<std::runtime_error>(HasSubstr("AddressSanitizer")));
}

}  // namespace
}  // namespace attend
