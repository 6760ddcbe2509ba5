#include "attend/train/text_task.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class TextTaskTest : public testing::Test {
 protected:
  Recipe recipe(const std::string& text, int64_t context) {
    replace_file(directory_ / "text", text);
    auto made = TextTask::defaults();
    made.text = (directory_ / "text").string();
    made.context() = context;
    return made;
  }
  static std::string digits(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += static_cast<char>('0' + i % 10);
    return text;
  }

  TemporaryDirectory directory_;
};

TEST_F(TextTaskTest, ValidationReadsEachHeldOutCharacterOnce) {
  const TextTask task(recipe(digits(1000), 16));  // 100 held out: 99 to predict
  int64_t targets = 0;
  std::vector<int64_t> seen;
  for (const auto& batch : task.validation_batches(4)) {
    targets += batch.targets.numel();
    const auto flat = batch.targets.flatten();
    for (int64_t i = 0; i < flat.size(0); ++i) seen.push_back(flat[i].item<int64_t>());
  }
  EXPECT_EQ(targets, 99);
  EXPECT_EQ(task.tokenizer().decode(seen), digits(1000).substr(901));
}

TEST_F(TextTaskTest, TrainingNeverSeesTheHeldOutPart) {
  std::string text = std::string(900, 'a') + std::string(100, 'b');
  const TextTask task(recipe(text, 16));
  Sampler sampler(3);
  const auto batch = task.training_batch(2000, sampler);
  EXPECT_EQ(batch.targets.max().item<int64_t>(), task.tokenizer().encode("a").at(0));
}

TEST_F(TextTaskTest, TargetsAreTheNextCharacters) {
  const TextTask task(recipe(digits(1000), 8));
  Sampler sampler(3);
  const auto batch = task.training_batch(5, sampler);
  EXPECT_TRUE(batch.targets.equal((batch.tokens + 1).remainder(10)));
}

TEST_F(TextTaskTest, TheSameSamplerGivesTheSameBatch) {
  const TextTask task(recipe(digits(1000), 8));
  Sampler one(3);
  Sampler same(3);
  EXPECT_TRUE(task.training_batch(5, one).tokens.equal(task.training_batch(5, same).tokens));
}

TEST_F(TextTaskTest, AFileShorterThanTheContextIsRefused) {
  const auto made = recipe(digits(100), 10);  // held out: 10 characters
  EXPECT_THAT([&] { TextTask{made}; },
              ThrowsMessage<InputError>(HasSubstr("100 tokens leave a validation part of 10, "
                                                  "expected more than the context (10)")));
  EXPECT_NO_THROW(TextTask{recipe(digits(110), 10)});
}

TEST_F(TextTaskTest, ItsChecksumTellsOneTextFromAnother) {
  const auto checksum = TextTask(recipe(digits(1000), 8)).data_checksum();
  auto changed = digits(1000);
  EXPECT_EQ(TextTask(recipe(changed, 8)).data_checksum(), checksum);
  std::swap(changed[500], changed[501]);
  EXPECT_NE(TextTask(recipe(changed, 8)).data_checksum(), checksum);
}

}  // namespace
}  // namespace attend::train
