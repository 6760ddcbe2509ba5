#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/example_task.h"
#include "attend/train/loss.h"
#include "support/throws.h"

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

}  // namespace
}  // namespace attend::train
