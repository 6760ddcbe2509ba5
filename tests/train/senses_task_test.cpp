#include "attend/input_error.h"
#include "attend/train/task.h"
#include "train/senses_grammar.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::HasSubstr;

const Recipe& kDefaults = find_task("senses").defaults;

TEST(SensesTask, TargetsAreTheNextTokensAndTheSense) {
  const auto task = make_task(kDefaults);
  const auto& tokenizer = task->tokenizer();
  const auto batch = task->validation_batches(3).front();
  const auto length = batch.targets[0].ne(kIgnoreIndex).sum().item<int64_t>();
  EXPECT_TRUE(
      batch.targets[0].narrow(0, 0, length - 1).equal(batch.tokens[0].narrow(0, 1, length - 1)));
  EXPECT_THAT(tokenizer.token(batch.targets[0][length - 1].item<int64_t>()), HasSubstr("="));
  EXPECT_TRUE(batch.answers[0][length - 1].item<bool>());
  EXPECT_EQ(batch.answers.sum().item<int64_t>(), 3) << "each sentence must have one answer token";
}

TEST(SensesTask, ProbeTextsAreValidationSentences) {
  const auto probes = make_task(kDefaults)->probe_texts();
  ASSERT_EQ(probes.size(), 2U);
  EXPECT_NE(probes[0], probes[1]);
  const auto sentences = make_sense_sentences();
  for (const auto& probe : probes) {
    EXPECT_THAT(sentences.validation,
                testing::Contains(testing::Field(&SenseSentence::words, probe)));
  }
}

TEST(SensesTask, ValidationDoesNotDependOnTheBatchSize) {
  const auto task = make_task(kDefaults);
  int64_t rows = 0;
  for (const auto& batch : task->validation_batches(7)) rows += batch.tokens.size(0);
  EXPECT_EQ(rows, 800);
}

}  // namespace
}  // namespace attend::train
