#include "attend/train/entities.h"

#include "attend/train/batch.h"
#include "attend/train/confusion_matrix.h"
#include "support/seed.h"

#include <gmock/gmock.h>

#include <set>
#include <tuple>

namespace attend::train {
namespace {

using Tags = std::vector<std::string>;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Entities, BeginWithB) {
  EXPECT_THAT(entities_of({"B-PER", "I-PER", "O", "B-LOC", "B-LOC"}),
              ElementsAre(Entity{"PER", 0, 2}, Entity{"LOC", 3, 4}, Entity{"LOC", 4, 5}));
  EXPECT_THAT(entities_of({}), IsEmpty());
  EXPECT_THAT(entities_of({"O", "O"}), IsEmpty());
}

// The results are those of seqeval 1.2.2 without its strict mode.
TEST(Entities, BeginWithIIfNoWordOfTheTypePrecedes) {
  EXPECT_THAT(entities_of({"I-PER", "I-PER", "I-LOC", "O", "I-LOC"}),
              ElementsAre(Entity{"PER", 0, 2}, Entity{"LOC", 2, 3}, Entity{"LOC", 4, 5}));
}

TEST(Entities, OfIobes) {
  EXPECT_THAT(entities_of({"S-PER", "B-LOC", "I-LOC", "E-LOC", "I-LOC", "S-LOC"}),
              ElementsAre(Entity{"PER", 0, 1}, Entity{"LOC", 1, 4}, Entity{"LOC", 4, 5},
                          Entity{"LOC", 5, 6}));
}

TEST(EntityTypes, AreThoseOfTagsWithPrefixes) {
  EXPECT_THAT(entity_types({"O", "I-PER", "B-PER", "B-LOC", "S-x-y"}),
              ElementsAre("LOC", "PER", "x-y"));
  for (const auto& tags : {Tags{"O", "NOUN"}, Tags{"B-PER", "X-PER"}, Tags{"B-", "O"}, Tags{"B"}})
    EXPECT_THAT(entity_types(tags), IsEmpty()) << tags.back();
}

/// Entities as sets of words: a word continues an entity if its tag begins with I and has the type
/// of the word before.
std::set<std::tuple<int64_t, int64_t, std::string, int64_t>> entity_set(
    const torch::Tensor& ids, const torch::Tensor& targets, const Tags& tags) {
  std::set<std::tuple<int64_t, int64_t, std::string, int64_t>> entities;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    Tags words;
    for (int64_t i = 0; i < ids.size(1); ++i) {
      if (targets[row][i].item<int64_t>() != kIgnoreIndex)
        words.push_back(tags[static_cast<std::size_t>(ids[row][i].item<int64_t>())]);
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "O") continue;
      const auto type = words[i].substr(2);
      if (words[i][0] == 'I' && i > 0 && words[i - 1] != "O" && words[i - 1].substr(2) == type)
        continue;
      auto end = i + 1;
      while (end < words.size() && words[end] == "I-" + type) ++end;
      entities.emplace(row, static_cast<int64_t>(i), type, static_cast<int64_t>(end));
    }
  }
  return entities;
}

TEST(EntityConfusionMatrix, CountsEqualEntities) {
  seed_afresh();
  const Tags tags{"B-LOC", "B-PER", "I-LOC", "I-PER", "O"};
  for (int repetition = 0; repetition < 20; ++repetition) {
    const auto draw_ids = [] { return torch::randint(5, {3, 12}, torch::kLong); };
    auto targets = draw_ids();
    const auto predicted = torch::where(torch::rand({3, 12}).lt(0.7), targets, draw_ids());
    targets.masked_fill_(torch::rand({3, 12}).lt(0.2), kIgnoreIndex);
    const auto matrix = entity_confusion_matrix(predicted, targets, tags);
    const auto expected = entity_set(targets, targets, tags);
    const auto found = entity_set(predicted, targets, tags);
    for (const std::string type : {"LOC", "PER"}) {
      int64_t hits = 0, misses = 0, wrong = 0;
      for (const auto& entity : expected)
        if (std::get<2>(entity) == type) ++(found.contains(entity) ? hits : misses);
      for (const auto& entity : found)
        if (std::get<2>(entity) == type && !expected.contains(entity)) ++wrong;
      EXPECT_TRUE(matrix[type == "PER"].equal(torch::tensor({{int64_t{0}, wrong}, {misses, hits}})))
          << type << matrix;
    }
  }
}

TEST(EntityConfusionMatrix, GivesF1) {
  const Tags tags{"B-PER", "I-PER", "O"};
  const auto targets = torch::tensor({{0, 1, 2, 0}});  // two entities
  EXPECT_EQ(micro_f1(entity_confusion_matrix(targets, targets, tags)), 1.0);
  const auto predicted = torch::tensor({{0, 2, 2, 0}});  // one is too short
  EXPECT_EQ(micro_f1(entity_confusion_matrix(predicted, targets, tags)), 0.5);
}

}  // namespace
}  // namespace attend::train
