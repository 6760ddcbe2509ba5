
#include "train/senses_grammar.h"

#include <gmock/gmock.h>

#include <iterator>
#include <map>
#include <set>
#include <sstream>

namespace attend::train {
namespace {

std::vector<std::string> split(const std::string& words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

TEST(SensesGrammar, ValidationAndTrainingSentencesDoNotOverlap) {
  const auto sentences = make_sense_sentences();
  std::set<std::string> training;
  for (const auto& sentence : sentences.training) training.insert(sentence.words);
  EXPECT_EQ(training.size(), sentences.training.size()) << "duplicate sentence";
  for (const auto& sentence : sentences.validation) {
    EXPECT_FALSE(training.contains(sentence.words)) << sentence.words;
  }
}

TEST(SensesGrammar, SenseDependsOnlyOnContext) {
  // The two sentences of a pair have the same length. They differ only in words that depend on the
  // sense. All other words, such as the ambiguous word, are equal and at the same positions, so
  // these words do not reveal the sense.
  const auto sentences = make_sense_sentences();
  for (std::size_t i = 0; i < sentences.validation.size(); i += 2) {
    const auto one = split(sentences.validation[i].words);
    const auto other = split(sentences.validation[i + 1].words);
    EXPECT_NE(sentences.validation[i].sense, sentences.validation[i + 1].sense);
    EXPECT_EQ(one.back(), other.back());
    ASSERT_EQ(one.size(), other.size());
    int differing = 0;
    for (std::size_t k = 0; k < one.size(); ++k) differing += one[k] != other[k];
    EXPECT_THAT(differing, testing::AllOf(testing::Ge(1), testing::Le(3)));
  }
}

TEST(SensesGrammar, EachOfEightWordsHasTwoSensesEquallyOften) {
  const auto sentences = make_sense_sentences();
  for (const auto* part : {&sentences.training, &sentences.validation}) {
    std::map<std::string, std::size_t> count;
    for (const auto& sentence : *part) ++count[sentence.sense];
    for (const char* sense : {"bank=shore", "bank=money", "bat=club", "spring=coil", "crane=bird",
                              "match=game", "bark=tree"}) {
      EXPECT_TRUE(count.contains(sense)) << sense;
    }
    EXPECT_EQ(count.size(), 16U);
    for (const auto& [sense, times] : count) EXPECT_EQ(times, part->size() / 16) << sense;
  }
}

}  // namespace
}  // namespace attend::train
