#include "attend/train/token_predictions.h"

#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/nn/eval_guard.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/throws.h"
#include "tokenizers/small_tokenizers.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A WordPiece tokenizer as in BERT, with the maximum length of a text.
PublishedTokenizer bert(std::optional<int64_t> max_length = {}) {
  const std::vector<std::string> tokens{"[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada",
                                        "##s",   "lon",   "##don", "in"};
  const nlohmann::json post{
      {"type", "BertProcessing"}, {"sep", {"[SEP]", 2}}, {"cls", {"[CLS]", 1}}};
  const auto json =
      tokenizer_json({{"type", "WordPiece"},
                      {"unk_token", "[UNK]"},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", vocab_of(tokens)}},
                     {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"post_processor", post},
                      {"added_tokens", {added_token(3, "[MASK]", {{"special", true}})}},
                      {"normalizer",
                       {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}}}});
  return {TextTokenizer::parse(json.dump()), {.vocab_size = 9, .max_length = max_length}};
}

TEST(EncodeWords, TagsTheFirstTokenOfEachWord) {
  const auto words = encode_words(bert(), {"Adas", "in", "\u200b", "London"}, 20);
  EXPECT_THAT(words.tokens, ElementsAre(1, 4, 5, 8, 6, 7, 2));
  EXPECT_THAT(words.first_tokens, ElementsAre(1, 3, -1, 4));
}

TEST(EncodeWords, TruncatesTheLastTokens) {
  const auto whole = encode_words(bert(), {"in", "London"}, 5);
  EXPECT_THAT(whole.tokens, ElementsAre(1, 8, 6, 7, 2));
  const auto cut = encode_words(bert(), {"in", "London"}, 4);
  EXPECT_THAT(cut.tokens, ElementsAre(1, 8, 6, 2));
  EXPECT_THAT(cut.first_tokens, ElementsAre(1, 2));
  const auto less = encode_words(bert(), {"in", "London"}, 3);
  EXPECT_THAT(less.tokens, ElementsAre(1, 8, 2));
  EXPECT_THAT(less.first_tokens, ElementsAre(1));
  EXPECT_THAT(encode_words(bert(4), {"in", "London"}, 20).tokens, ElementsAre(1, 8, 6, 2));
}

TEST(EncodeWords, LeavesOutTheSpaceOfCharacterTokenizers) {
  const auto letters = Vocabulary::of_characters("ab ");  // 0 = space
  const auto words = encode_words(letters, {"ab", "b"}, 9);
  EXPECT_THAT(words.tokens, ElementsAre(1, 2, 0, 2));
  EXPECT_THAT(words.first_tokens, ElementsAre(0, 3));
  EXPECT_THAT(encode_words(letters, {"ab", "b"}, 3).first_tokens, ElementsAre(0));
  EXPECT_THAT([&] { encode_words(letters, {"c"}, 9); }, throws_naming<InputError>("'c'"));
}

TEST(SplitWords, AtWhiteSpace) {
  EXPECT_THAT(split_words(" a\tbc \r\n"), ElementsAre("a", "bc"));
  EXPECT_THAT(split_words(" "), IsEmpty());
}

TEST(TagProbabilities, AreThoseOfTheFirstTokens) {
  const FixedSeed seed;
  SequenceClassifier model(SequenceClassifierConfig{
      .vocab_size = 9, .num_classes = 3, .pooling = Pooling::none, .stack = {.num_layers = 1}});
  const EncodedWords one{{1, 4, 5, 8, 2}, {1, -1, 3}}, other{{1, 2}, {}};
  EXPECT_THAT([&] { tag_probabilities(model, {one}); },
              throws<c10::ValueError>("tag_probabilities"));
  model->eval();
  const auto all = tag_probabilities(model, {one, other});
  const auto expected = model(torch::tensor({{1, 4, 5, 8, 2}})).softmax(-1)[0];
  EXPECT_TRUE(close(all.at(0)[0], expected[1], 1e-6));
  EXPECT_TRUE(close(all.at(0)[1], torch::zeros({3}), 0.0));
  EXPECT_TRUE(close(all.at(0)[2], expected[3], 1e-6));
  EXPECT_EQ(all.at(1).sizes(), at::IntArrayRef({0, 3}));
}

TEST(EncodeMasked, FindsTheMaskToken) {
  const auto letters = Vocabulary::of_characters("abc").with_token(kMaskToken);
  EXPECT_THAT(encode_masked(letters, "a[MASK]c[MASK]"), ElementsAre(0, 3, 2, 3));
  const auto words = Vocabulary::of_words("a b").with_token(kMaskToken);
  EXPECT_THAT(encode_masked(words, "a [MASK] b"), ElementsAre(0, 2, 1));
  EXPECT_THAT(encode_masked(bert(4), "ada [MASK]"), ElementsAre(1, 4, 3, 2));
  EXPECT_THAT([&] { encode_masked(letters, "abc"); }, throws_naming<InputError>("[MASK]"));
  EXPECT_THROW(encode_masked(Vocabulary::of_words("a"), "a"), InputError);
}

TEST(MaskProbabilities, AreThoseOfTheMaskedTokens) {
  const FixedSeed seed;
  SequenceClassifier model(SequenceClassifierConfig{
      .vocab_size = 9, .max_seq_len = 4, .masked_lm = true, .stack = {.num_layers = 1}});
  model->eval();
  const auto found = mask_probabilities(model, {1, 3, 4, 3, 3}, 3);  // the last is too late
  const auto expected = model(torch::tensor({{1, 3, 4, 3}})).softmax(-1)[0];
  EXPECT_TRUE(close(found, expected.index_select(0, torch::tensor({1, 3})), 1e-6));
}

}  // namespace
}  // namespace attend::train
