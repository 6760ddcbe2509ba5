#include "attend/train/subword_tokenizer.h"

#include "attend/input_error.h"
#include "support/random_text.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::string kText =
    "the cat sat on the mat\nand the cat saw the other cat\n\n  the end of the cat\n";

TEST(SubwordTokenizer, JoinsTheMostFrequentPairFirstAndOfEqualOnesTheSmallest) {
  // "ab" stands 4 times, "bc" and then "abc" 3 times, "xy" 2 times.
  const auto tokenizer = SubwordTokenizer::learn("abc\nabc\nabc\nab\nxy\nxy\nz", 259);
  EXPECT_EQ(tokenizer.decode({256}), "ab");
  EXPECT_EQ(tokenizer.decode({257}), "abc");
  EXPECT_EQ(tokenizer.decode({258}), "xy");
  EXPECT_THAT(tokenizer.encode("abcxyabz"), ElementsAre(257, 258, 256, 'z'));
  const auto equal = SubwordTokenizer::learn("yz\nyz\nbc\nbc\n", 257);
  EXPECT_EQ(equal.decode({256}), "bc");
}

TEST(SubwordTokenizer, CountsPairsAnewAfterEachJoin) {
  // Of "aaa" only one "aa" is joined; then "aa" "a" is a pair of its own.
  const auto tokenizer = SubwordTokenizer::learn("aaa\naaa\naaaa\n", 258);
  EXPECT_EQ(tokenizer.decode({256}), "aa");
  EXPECT_EQ(tokenizer.decode({257}), "aaa");
  EXPECT_THAT(tokenizer.encode("aaa"), ElementsAre(257));
  EXPECT_THAT(tokenizer.encode("aaaa"), ElementsAre(256, 256));
}

/// What is most frequent in words that stand in lines, counted from the beginning for each token.
std::vector<SubwordTokenizer::Merge> slowly_learned(const std::vector<std::string>& words,
                                                    std::size_t most) {
  std::vector<SubwordTokenizer::Merge> merges;
  while (merges.size() < most) {
    const SubwordTokenizer tokenizer(merges);
    std::map<SubwordTokenizer::Merge, int> counts;
    for (const auto& word : words) {
      const auto ids = tokenizer.encode(word);
      for (std::size_t i = 1; i < ids.size(); ++i) ++counts[{ids[i - 1], ids[i]}];
    }
    const auto best =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < 2) break;
    merges.push_back(best->first);
  }
  return merges;
}

TEST(SubwordTokenizer, LearnsWhatCountingAnewEachTimeGives) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> words(30);
    std::string text;
    for (auto& word : words) {
      for (auto length = draw(1, 12); length > 0; --length)
        word += static_cast<char>('a' + draw(0, 3));
      text += word + "\n";
    }
    const SubwordTokenizer expected(slowly_learned(words, 40));
    EXPECT_EQ(SubwordTokenizer::learn(text, expected.size()).to_json(), expected.to_json()) << text;
  }
}

TEST(SubwordTokenizer, TokensKeepToWordsWithTheSpaceBeforeThem) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "in 1984, in 1984,\n\tx  in 1984,\n";
  const auto tokenizer = SubwordTokenizer::learn(text, 262);
  EXPECT_EQ(tokenizer.encode(" in 1984,\n\tx  in").size(), 8u);
  EXPECT_EQ(tokenizer.decode({tokenizer.encode(" in 1984")[0]}), " in");
  for (int64_t id = 256; id < tokenizer.size(); ++id) {
    const auto token = tokenizer.decode({id});
    EXPECT_TRUE(token.find("\n") == std::string::npos) << token;
    EXPECT_TRUE(token.find(',') == std::string::npos) << token;
    EXPECT_TRUE(token.find(' ', 1) == std::string::npos) << token;
  }
}

TEST(SubwordTokenizer, DecodesAnyBytesThatItEncoded) {
  seed_afresh();
  for (int i = 0; i < 15; ++i) {
    const auto learned = kText + random_text(80);
    const auto tokenizer = SubwordTokenizer::learn(learned, 262);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(learned)), learned);
    for (int j = 0; j < 30; ++j) {
      const auto text = random_text(60) + (j % 2 == 0 ? random_bytes(40) : "");
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(SubwordTokenizer, IsTheSameEachTimeAndFromItsFile) {
  seed_afresh();
  const auto text = kText + random_text(200);
  const auto one = SubwordTokenizer::learn(text, 262);
  EXPECT_EQ(SubwordTokenizer::learn(text, 262).to_json(), one.to_json());
  const auto loaded = SubwordTokenizer::from_json(one.to_json());
  EXPECT_EQ(loaded.files(), one.files());
  EXPECT_EQ(loaded.encode(text), one.encode(text));
}

TEST(SubwordTokenizer, LongWordsAreCutBetweenCharacters) {
  const std::string character = "\u4E16";
  std::string word;
  for (int i = 0; i < 2000; ++i) word += character;
  const auto tokenizer = SubwordTokenizer::learn(word, 262);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(word)), word);
  // Chunks of 22 characters, a token for each 22, 16, 8, 4, 2 or 1 of them.
  EXPECT_EQ(tokenizer.encode(character).size(), 1u);
  EXPECT_LT(tokenizer.encode(word).size(), 1000u);
}

TEST(SubwordTokenizer, RefusesSizesThatTheTextDoesNotGive) {
  EXPECT_THAT([] { SubwordTokenizer::learn(kText, 255); },
              ThrowsMessage<InputError>("a subword vocabulary of 255 tokens is too small: expected "
                                        "at least 256"));
  EXPECT_THAT([] { SubwordTokenizer::learn("ab ab\tab\n", 1000); },
              ThrowsMessage<InputError>("a subword vocabulary of 1000 tokens is too large for this "
                                        "text: expected at most 257"));
  EXPECT_EQ(SubwordTokenizer::learn("ab ab\tab\n", 257).size(), 257);
  EXPECT_EQ(SubwordTokenizer::learn("", 256).size(), 256);
  EXPECT_THROW(SubwordTokenizer::learn("ab", int64_t{1} << 60), InputError);
}

TEST(SubwordTokenizer, ShowsWhatCannotBePrintedAsNumbers) {
  const SubwordTokenizer tokenizer({{'\t', 'a'}, {0xC3, 0xA9}});
  EXPECT_EQ(tokenizer.token(256), "\\x09a");
  EXPECT_EQ(tokenizer.token(257), "é");
  EXPECT_EQ(tokenizer.token(0xC3), "\\xc3");
  EXPECT_THROW(tokenizer.token(258), std::out_of_range);
  EXPECT_THROW(tokenizer.decode({-1}), std::out_of_range);
}

TEST(SubwordTokenizer, RefusesMergesThatCannotBe) {
  using Merges = std::vector<SubwordTokenizer::Merge>;
  const auto make = [](const Merges& merges) { return [=] { SubwordTokenizer{merges}; }; };
  EXPECT_THAT(make({{97, 256}}),
              ThrowsMessage<InputError>(HasSubstr("merge 0 of 97 and 256: "
                                                  "expected tokens in 0 to 255")));
  EXPECT_THAT(make({{-1, 97}}), ThrowsMessage<InputError>(HasSubstr("of -1 and 97")));
  EXPECT_THAT(make({{97, 98}, {97, 98}}), ThrowsMessage<InputError>(HasSubstr("stands twice")));
  Merges doubled{{97, 97}};
  for (int64_t id = 256; id < 290; ++id) doubled.push_back({id, id});
  EXPECT_THAT(make(doubled), ThrowsMessage<InputError>(HasSubstr("a token of 128 bytes")));
}

TEST(SubwordTokenizer, RefusesOtherFiles) {
  for (const char* json :
       {"", "[]", R"({"unit":"subword"})", R"({"unit":"word","merges":[]})",
        R"({"unit":"subword","merges":[],"more":1})", R"({"unit":"subword","merges":{}})",
        R"({"unit":"subword","merges":[[97]]})", R"({"unit":"subword","merges":[[97,98,99]]})",
        R"({"unit":"subword","merges":[[97,98.5]]})", R"({"unit":"subword","merges":["ab"]})",
        R"({"unit":"subword","merges":[[97,18446744073709551615]]})"}) {
    EXPECT_THROW(SubwordTokenizer::from_json(json), InputError) << json;
  }
  EXPECT_EQ(SubwordTokenizer::from_json(R"({"unit":"subword","merges":[]})").size(), 256);
}

}  // namespace
}  // namespace attend::train
