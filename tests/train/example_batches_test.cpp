#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/example_task.h"
#include "attend/train/loss.h"
#include "attend/train/token_predictions.h"
#include "support/throws.h"

#include <utility>

namespace attend::train {
namespace {

struct ExampleBatches : testing::Test {
  auto continuation_call(const Example& example) {
    return [this, example] { continuation_rows({example}, layout); };
  }

  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(TokenizerKind::character, "abc=.", 0);
  RowLayout layout{.tokenizer = *tokenizer, .padding = 0, .length = 6};
};

TEST_F(ExampleBatches, ContinuationTargetsAreTheAnswers) {
  const auto batch = continuation_rows({{"ab=", "c."}}, layout);
  const auto ids = tokenizer->encode("ab=c.");
  EXPECT_TRUE(torch::equal(batch.tokens[0].narrow(0, 0, 4), torch::tensor(ids).narrow(0, 0, 4)));
  EXPECT_TRUE(torch::equal(batch.targets[0], torch::tensor({kIgnoreIndex, kIgnoreIndex, ids[3],
                                                            ids[4], kIgnoreIndex, kIgnoreIndex})));
}

TEST_F(ExampleBatches, TruncationRemovesTokensFromTheGivenSide) {
  const std::vector<int64_t> tokens{1, 2, 3};
  EXPECT_EQ(truncated(tokens, 2, TruncationSide::right), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(truncated(tokens, 2, TruncationSide::left), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(truncated(tokens, 3, TruncationSide::left), tokens);
  EXPECT_EQ(truncated(tokens, 4, TruncationSide::right), tokens);
  layout.truncate = TruncationSide::left;
  const auto batch = classification_rows({{"abcabcab", "x"}}, layout, {"x"});
  EXPECT_TRUE(batch.tokens[0].equal(torch::tensor(tokenizer->encode("cabcab"))));
}

TEST_F(ExampleBatches, EmptyPromptsThrow) {
  EXPECT_THAT(continuation_call({"", "abc"}),
              throws<InputError>("the prompt of the example with the answer 'abc' is empty"));
  EXPECT_THAT(continuation_call({"", ""}),
              throws<InputError>("the prompt of the example with the answer ''"));
  EXPECT_NO_THROW(continuation_call({"abc", ""})());
}

TEST_F(ExampleBatches, TooLongErrorsQuoteTheTextThatIsTooLong) {
  const auto translation_call = [this](const Example& example) {
    return [this, example] { translation_rows({example}, layout, 1, 2); };
  };
  // A target row has 6 positions, and one of them is for the end token.
  EXPECT_THAT(
      translation_call({"ab", "abcabc"}),
      throws<InputError>("example 'ab': the text 'abcabc' has 6 tokens, expected at most 5"));
  EXPECT_THAT(
      translation_call({"abcabca", "c"}),
      throws<InputError>("example 'abcabca': the text 'abcabca' has 7 tokens, expected at most 6"));
  EXPECT_NO_THROW(translation_call({"abcabc", "abcab"})());
  EXPECT_THAT(continuation_call({"abcabc=", "c"}),
              throws<InputError>("'abcabc=c' has 8 tokens, expected at most 7"));
}

TEST_F(ExampleBatches, LongTranslationsAreTruncated) {
  auto truncating = layout;
  truncating.truncate = TruncationSide::left;
  const auto long_rows = translation_rows({{"abcabca", "abcabc"}}, truncating, 1, 2);
  const auto short_rows = translation_rows({{"bcabca", "bcabc"}}, layout, 1, 2);
  EXPECT_TRUE(long_rows.tokens.equal(short_rows.tokens));
  EXPECT_TRUE(long_rows.targets.equal(short_rows.targets));
}

TEST_F(ExampleBatches, SelectedRowsHaveNoColumnsOfPadding) {
  const auto batch = classification_rows({{"abcab", "x"}, {"ab", "x"}, {"c", "x"}}, layout, {"x"});
  EXPECT_EQ(batch.tokens.sizes(), (std::vector<int64_t>{3, 6}));
  const auto rows = select_rows(batch, torch::tensor({2, 1}));
  EXPECT_TRUE(rows.tokens.equal(batch.tokens.index({torch::tensor({2, 1})}).narrow(1, 0, 2)));
  EXPECT_TRUE(rows.key_mask.equal(torch::tensor({{true, false}, {true, true}})));
  EXPECT_EQ(rows.targets.sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(select_rows(batch, torch::empty({0}, torch::kLong)).tokens.sizes(),
            (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(split_rows(batch, 2).front().tokens.size(1), 5);
}

TEST_F(ExampleBatches, SelectedRowsKeepLabels) {
  const std::vector<std::string> labels{"u", "v", "w", "x", "y", "z"};  // as many as columns
  const auto batch = classification_rows({{"ab", "u z"}}, layout, labels,
                                         {.type = ProblemType::multi_label_classification});
  const auto rows = select_rows(batch, torch::tensor({0}));
  EXPECT_EQ(rows.tokens.size(1), 2);
  EXPECT_TRUE(rows.targets.equal(batch.targets));
}

TEST_F(ExampleBatches, SelectedRowsHaveTargetsOfTheirTokens) {
  const auto one = [](const std::string& words, std::vector<std::string> tags) {
    return Example{
        .prompt = words, .answer = "", .labels = std::move(tags), .words = split_words(words)};
  };
  const auto words = make_tokenizer(TokenizerKind::word, "a b c", 0);
  const RowLayout rows_of_words{.tokenizer = *words, .padding = 0, .length = 6};
  const auto batch =
      tag_rows({one("a b c", {"x", "y", "x"}), one("a b", {"x", "x"})}, rows_of_words, {"x", "y"});
  const auto rows = select_rows(batch, torch::tensor({1}));
  for (const auto& tensor : {rows.tokens, rows.key_mask, rows.targets, rows.answers})
    EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(rows.targets.equal(torch::tensor({{0, 0}})));
}

TEST_F(ExampleBatches, SelectedRowsHaveAnOwnLengthOfSourcesAndTargets) {
  const auto batch = translation_rows({{"abc", "a"}, {"ab", "abcab"}}, layout, 1, 2);
  const auto first = select_rows(batch, torch::tensor({0}));
  EXPECT_EQ(first.tokens.size(1), 3);
  for (const auto& tensor : {first.decoder_tokens, first.targets, first.answers})
    EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{1, 2}));
  const auto second = select_rows(batch, torch::tensor({1}));
  EXPECT_EQ(second.tokens.size(1), 2);
  EXPECT_EQ(second.targets.size(1), 6);
}

}  // namespace
}  // namespace attend::train
