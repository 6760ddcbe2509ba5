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
  EXPECT_EQ(task.vocabulary().decode(seen), digits(1000).substr(901));
}

TEST_F(TextTaskTest, TrainingNeverSeesTheHeldOutPart) {
  std::string text = std::string(900, 'a') + std::string(100, 'b');
  const TextTask task(recipe(text, 16));
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const auto batch = task.training_batch(2000, generator);
  EXPECT_EQ(batch.targets.max().item<int64_t>(), task.vocabulary().id("a"));
}

TEST_F(TextTaskTest, TargetsAreTheNextCharacters) {
  const TextTask task(recipe(digits(1000), 8));
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const auto batch = task.training_batch(5, generator);
  EXPECT_TRUE(batch.targets.equal((batch.tokens + 1).remainder(10)));
}

TEST_F(TextTaskTest, TheSameGeneratorGivesTheSameBatch) {
  const TextTask task(recipe(digits(1000), 8));
  auto one = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  auto same = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  EXPECT_TRUE(task.training_batch(5, one).tokens.equal(task.training_batch(5, same).tokens));
}

TEST_F(TextTaskTest, AFileShorterThanTheContextIsRefused) {
  const auto made = recipe(digits(100), 10);  // held out: 10 characters
  EXPECT_THAT([&] { TextTask{made}; },
              ThrowsMessage<InputError>(HasSubstr("100 characters leave a validation part of 10, "
                                                  "expected more than the context (10)")));
  EXPECT_NO_THROW(TextTask{recipe(digits(110), 10)});
}

}  // namespace
}  // namespace attend::train
