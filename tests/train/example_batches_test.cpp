#include "attend/train/example_batches.h"

#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
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
  EXPECT_TRUE(torch::equal(
      batch.targets[0], torch::tensor({kIgnored, kIgnored, ids[3], ids[4], kIgnored, kIgnored})));
}

TEST_F(ExampleBatches, EmptyPromptsThrow) {
  EXPECT_THAT(continuation_call({"", "abc"}),
              throws<InputError>("the prompt of the answer 'abc' is empty"));
  EXPECT_THAT(continuation_call({"", ""}), throws<InputError>("the prompt of the answer ''"));
  EXPECT_NO_THROW(continuation_call({"abc", ""})());
}

}  // namespace
}  // namespace attend::train
