#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/throws.h"
#include "train/trainer_state_json.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A `stop_requested` that returns true after `steps` steps.
auto stop_after(int64_t steps) {
  return [steps, done = int64_t{0}]() mutable { return ++done >= steps; };
}

TEST(TrainerHooks, CheckpointSinkIsCalledInIntervalsAndAtTheEnd) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 4;
  Recorder whole;
  SmallRun(recipe).trainer.run({.checkpoint_sink = &whole});
  EXPECT_THAT(whole.saved, ElementsAre(4, 8, 10));

  Recorder stopped;
  SmallRun(recipe).trainer.run({.checkpoint_sink = &stopped, .stop_requested = stop_after(5)});
  EXPECT_THAT(stopped.saved, ElementsAre(4, 5));

  Recorder just_saved;
  SmallRun(recipe).trainer.run({.checkpoint_sink = &just_saved, .stop_requested = stop_after(8)});
  EXPECT_THAT(just_saved.saved, ElementsAre(4, 8)) << "step 8 must be saved only once";
}

TEST(TrainerHooks, SaveBestIsCalledWhenTheLossImproves) {
  auto recipe = small_recipe("senses", 30);
  recipe.training.eval_every = 1;
  recipe.training.warmup_steps = 0;
  recipe.training.lr = 0.3;  // so high that the loss oscillates
  Recorder recorder;
  SmallRun run(recipe);
  const auto state =
      run.trainer.run({.observers = {&recorder}, .checkpoint_sink = &recorder}).state;
  std::size_t improvements = 0;
  double lowest = INFINITY;
  for (std::size_t i = 0; i < recorder.evaluations.size(); ++i) {
    if (recorder.evaluations[i].loss >= lowest) continue;
    lowest = recorder.evaluations[i].loss;
    ++improvements;
    EXPECT_LE(recorder.evaluated[i], state.best_step);
  }
  EXPECT_LT(improvements, recorder.evaluations.size()) << "every evaluation improved";
  EXPECT_EQ(recorder.best.size(), improvements);
  EXPECT_EQ(state.best->loss, lowest);
  load_state_dict(module_of(run.model), recorder.best.back());
  EXPECT_EQ(evaluate(run.model, *run.task).loss, lowest);
}

/// Trains a parameter with a loss of 0, and returns the given evaluations one after the other.
struct Scripted : Objective {
  explicit Scripted(std::vector<Evaluation> evaluations) : results(std::move(evaluations)) {}

  torch::nn::Module& module() override { return *net; }
  TrainingBatch training_batch(int64_t size, Sampler&) override {
    return {size, size, [this]() -> TrainingLoss { return {net->weight.sum() * 0.0}; }};
  }
  Evaluation evaluate(const EvaluationOptions&) override { return results.at(next++); }

  std::vector<Evaluation> results;
  std::size_t next = 0;
  torch::nn::Linear net{1, 1};
};

TEST(TrainerHooks, BestMetricSelectsTheBestWeightsAndPatienceFollowsIt) {
  std::vector<Evaluation> evaluations{{.loss = 1.0, .exact_match = {5, 10}, .f1 = 0.3},
                                      {.loss = 0.5, .exact_match = {6, 10}, .f1 = 0.2},
                                      {.loss = 0.7, .exact_match = {8, 10}, .f1 = 0.1},
                                      {.loss = NAN, .exact_match = {9, 10}, .f1 = 0.9},
                                      {.loss = 0.9, .exact_match = {8, 10}, .f1 = 0.3},
                                      {.loss = 0.8, .exact_match = {7, 10}, .f1 = 0.25}};
  struct Expected {
    BestMetric metric;
    int64_t best_step;
    int64_t last_step;
    std::vector<int64_t> improved;
  };
  for (const auto& [metric, best_step, last_step, improved] :
       {Expected{BestMetric::loss, 2, 5, {1, 2}}, Expected{BestMetric::accuracy, 3, 6, {1, 2, 3}},
        Expected{BestMetric::f1, 1, 4, {1}}}) {
    SCOPED_TRACE(to_string(metric));
    Recorder recorder;
    Trainer trainer(std::make_shared<Scripted>(evaluations),
                    {.max_steps = 6, .eval_every = 1, .best_metric = metric, .patience = 3});
    const auto state = trainer.run({.observers = {&recorder}, .checkpoint_sink = &recorder}).state;
    EXPECT_EQ(state.best_step, best_step);
    EXPECT_EQ(state.step, last_step);
    EXPECT_EQ(recorder.best.size(), improved.size());
    for (std::size_t i = 0; i < recorder.evaluations.size(); ++i) {
      const auto step = static_cast<int64_t>(i) + 1;
      EXPECT_EQ(recorder.evaluations[i].is_best, std::ranges::count(improved, step) > 0) << step;
    }
  }
}

TEST(TrainerHooks, AMissingMetricThrows) {
  for (const auto metric : {BestMetric::accuracy, BestMetric::f1}) {
    Trainer trainer(std::make_shared<Scripted>(std::vector<Evaluation>(1)),
                    {.max_steps = 1, .eval_every = 1, .best_metric = metric});
    EXPECT_THAT([&] { trainer.run(); },
                throws_naming<InputError>("best_metric", std::string(to_string(metric)), "loss"));
  }
  auto recipe = small_recipe("senses");
  recipe.training.best_metric = BestMetric::f1;
  EXPECT_THAT([&] { SmallRun{recipe}; },
              throws_naming<InputError>("best_metric = f1", "loss", "accuracy"));
}

TEST(TrainerHooks, BestF1SurvivesAResume) {
  TrainerState state;
  state.best = Evaluation{.loss = 0.5, .f1 = 0.75};
  const auto restored = trainer_state_from_json(to_json(state));
  EXPECT_EQ(restored.best.value().f1, 0.75);
}

TEST(TrainerHooks, StopRequestedIsCalledAfterEachStep) {
  for (const int64_t step : {1, 2, 4, 9}) {
    Recorder recorder;
    const auto result =
        SmallRun(small_recipe("senses"))
            .trainer.run({.observers = {&recorder}, .stop_requested = stop_after(step)});
    EXPECT_EQ(result.stop_reason, StopReason::stop_requested);
    EXPECT_EQ(result.state.step, step);
    EXPECT_EQ(recorder.finished, 1);
  }
}

TEST(TrainerHooks, StopAfterTheLastStepIsMaxSteps) {
  const auto result =
      SmallRun(small_recipe("senses")).trainer.run({.stop_requested = stop_after(10)});
  EXPECT_EQ(result.stop_reason, StopReason::max_steps);
}

TEST(TrainerHooks, PatienceStopsEarlyAlsoAfterResuming) {
  auto recipe = small_recipe("senses", 100);
  recipe.training.eval_every = 2;
  recipe.training.patience = 3;
  recipe.training.lr = 0.0;  // the loss never changes
  SmallRun run(recipe);
  Recorder recorder;
  const auto result = run.trainer.run({.observers = {&recorder}});
  EXPECT_EQ(result.stop_reason, StopReason::patience);
  EXPECT_THAT(recorder.evaluated, ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(recorder.finished, 1);
  EXPECT_EQ(result.state.best_step, 2);
  EXPECT_EQ(result.state.evaluations_without_improvement, 3);

  SmallRun resumed(recipe);
  resumed.trainer.restore(run.trainer.checkpoint());
  Recorder nothing;
  EXPECT_EQ(resumed.trainer.run({.observers = {&nothing}, .checkpoint_sink = &nothing}).stop_reason,
            StopReason::patience);
  EXPECT_THAT(nothing.reported_steps(), IsEmpty());
  EXPECT_THAT(nothing.saved, IsEmpty());
}

TEST(TrainerHooks, WithoutPatienceTrainsForAllSteps) {
  auto recipe = small_recipe("senses", 20);
  recipe.training.eval_every = 1;
  recipe.training.lr = 0.0;
  EXPECT_EQ(SmallRun(recipe).trainer.run().stop_reason, StopReason::max_steps);
}

}  // namespace
}  // namespace attend::train
