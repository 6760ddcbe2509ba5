#include "attend/input_error.h"
#include "attend/train/senses_grammar.h"
#include "attend/train/senses_task.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace attend::train {
namespace {

using testing::HasSubstr;

std::vector<std::string> split(const std::string& words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

TEST(SensesGrammar, HeldOutSentencesAreNeverTrainedOn) {
  const auto sentences = make_sense_sentences();
  std::set<std::string> training;
  for (const auto& sentence : sentences.training) training.insert(sentence.words);
  EXPECT_EQ(training.size(), sentences.training.size()) << "a sentence stands twice";
  for (const auto& sentence : sentences.held_out) {
    EXPECT_FALSE(training.contains(sentence.words)) << sentence.words;
  }
}

TEST(SensesGrammar, OnlyTheWordsAroundItTellTheSense) {
  // The two sentences of a pair have the ambiguous word, and all that is not of a sense, at the
  // same places: position, length and word say nothing.
  const auto sentences = make_sense_sentences();
  for (std::size_t i = 0; i < sentences.held_out.size(); i += 2) {
    const auto one = split(sentences.held_out[i].words);
    const auto other = split(sentences.held_out[i + 1].words);
    EXPECT_NE(sentences.held_out[i].sense, sentences.held_out[i + 1].sense);
    EXPECT_EQ(one.back(), other.back());
    ASSERT_EQ(one.size(), other.size());
    int differing = 0;
    for (std::size_t k = 0; k < one.size(); ++k) differing += one[k] != other[k];
    EXPECT_THAT(differing, testing::AllOf(testing::Ge(1), testing::Le(3)));
  }
}

TEST(SensesGrammar, EachOfEightWordsHasTwoSensesEquallyOften) {
  const auto sentences = make_sense_sentences();
  EXPECT_THAT(ambiguous_words(),
              testing::IsSupersetOf({"bank", "bat", "spring", "crane", "match", "bark"}));
  EXPECT_EQ(ambiguous_words().size(), 8U);
  for (const auto* part : {&sentences.training, &sentences.held_out}) {
    std::map<std::string, std::size_t> count;
    for (const auto& sentence : *part) ++count[sentence.sense];
    EXPECT_EQ(count.size(), 16U);
    for (const auto& [sense, times] : count) EXPECT_EQ(times, part->size() / 16) << sense;
  }
}

TEST(SensesTask, TargetsAreTheNextTokensAndTheSense) {
  const SensesTask task(SensesTask::defaults());
  const auto& vocabulary = task.vocabulary();
  const auto batch = task.validation_batches(3).front();
  const auto length = batch.targets[0].ne(kIgnored).sum().item<int64_t>();
  EXPECT_TRUE(
      batch.targets[0].narrow(0, 0, length - 1).equal(batch.tokens[0].narrow(0, 1, length - 1)));
  EXPECT_THAT(vocabulary.token(batch.targets[0][length - 1].item<int64_t>()), HasSubstr("="));
  EXPECT_TRUE(batch.answers[0][length - 1].item<bool>());
  EXPECT_EQ(batch.answers.sum().item<int64_t>(), 3) << "one answer a sentence";
}

TEST(SensesTask, ValidationIsWholeWhateverTheBatch) {
  const SensesTask task(SensesTask::defaults());
  int64_t rows = 0;
  for (const auto& batch : task.validation_batches(7)) rows += batch.tokens.size(0);
  EXPECT_EQ(rows, 800);
}

TEST(SensesTask, AContextShorterThanASentenceIsRefused) {
  auto recipe = SensesTask::defaults();
  recipe.model.context = 5;
  EXPECT_THAT([&] { SensesTask{recipe}; },
              testing::ThrowsMessage<InputError>(HasSubstr("context (5) must be at least")));
}

}  // namespace
}  // namespace attend::train
