#include "attend/train/trainer.h"

#include "attend/io/safetensors.h"
#include "attend/train/run.h"
#include "attend/train/senses_task.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

Recipe short_recipe(int64_t steps) {
  auto recipe = SensesTask::defaults();
  recipe.stack().dropout = 0.1;
  recipe.training.steps = steps;
  recipe.training.batch = 8;
  recipe.training.eval_every = 4;
  recipe.training.log_every = 3;
  return recipe;
}

LanguageModel trained(const Recipe& recipe, const std::vector<Observer*>& observers = {}) {
  const SensesTask task(recipe);
  auto model = make_model(recipe, task.vocabulary());
  train(model, task, recipe.training, observers);
  return model;
}

bool equal_weights(const LanguageModel& one, const LanguageModel& other) {
  const auto expected = state_dict(*other);
  for (const auto& [name, tensor] : state_dict(*one)) {
    if (!tensor.equal(expected.at(name))) return false;
  }
  return true;
}

TEST(Trainer, TheSameSeedGivesTheSameRunBitForBit) {
  EXPECT_TRUE(equal_weights(trained(short_recipe(10)), trained(short_recipe(10))));
}

TEST(Trainer, AnotherSeedGivesAnotherRun) {
  auto other = short_recipe(10);
  other.training.seed = 2;
  EXPECT_FALSE(equal_weights(trained(short_recipe(10)), trained(other)));
}

struct Recorder : Observer {
  void on_progress(const Progress& progress) override { reported.push_back(progress.step); }
  void on_evaluation(int64_t step, const Evaluation&) override {
    EXPECT_EQ(reported.back(), step) << "progress comes before the evaluation";
    evaluated.push_back(step);
  }
  std::vector<int64_t> reported;
  std::vector<int64_t> evaluated;
};

TEST(Trainer, ReportsInIntervalsAndAtTheEnd) {
  Recorder recorder;
  trained(short_recipe(10), {&recorder});
  EXPECT_THAT(recorder.reported, testing::ElementsAre(3, 4, 6, 8, 9, 10));
  EXPECT_THAT(recorder.evaluated, testing::ElementsAre(4, 8, 10));
}

TEST(Trainer, EvaluatingMoreOftenDoesNotChangeTheRun) {
  auto often = short_recipe(10);
  often.training.eval_every = 1;
  EXPECT_TRUE(equal_weights(trained(short_recipe(10)), trained(often)));
}

TEST(Trainer, ALossThatIsNotFiniteStopsAndNamesTheStep) {
  auto recipe = short_recipe(50);
  recipe.training.lr = 10.0;
  recipe.training.warmup = 0;
  recipe.training.clip = 0.0;
  const SensesTask task(recipe);
  auto model = make_model(recipe, task.vocabulary());
  {
    const torch::NoGradGuard no_grad;
    model->decoder->norm.get<LayerNorm>()->weight.fill_(1e38);
  }
  EXPECT_THAT(
      [&] { train(model, task, recipe.training); },
      testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("at step 1, learning")));
}

TEST(Trainer, AttentionLearnsTheSensesAndItsAbsenceCannot) {
  auto recipe = SensesTask::defaults();
  const SensesTask task(recipe);
  auto model = make_model(recipe, task.vocabulary());
  const auto with_attention = train(model, task, recipe.training);
  EXPECT_GE(*with_attention.evaluation.accuracy, 0.99);

  recipe.stack().layers = 0;
  auto baseline = make_model(recipe, task.vocabulary());
  const auto without = train(baseline, task, recipe.training);
  EXPECT_LE(*without.evaluation.accuracy, 0.5);
  EXPECT_GE(*without.evaluation.accuracy, 0.45) << "it has not even learned to guess";
}

}  // namespace
}  // namespace attend::train
