// Loss scaling. tests/parity/grad_scaler_parity_test.cpp compares it with torch.amp.GradScaler.
#include "attend/train/grad_scaler.h"

#include "attend/input_error.h"
#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <cmath>

namespace attend::train {
namespace {

using testing::ElementsAre;

TEST(GradScaler, HalvesAtNonFiniteGradientsAndDoublesAfter2000FiniteSteps) {
  GradScaler scaler;
  EXPECT_EQ(scaler.factor(), 65536.0);
  for (int i = 0; i < 1999; ++i) scaler.update(true);
  EXPECT_EQ(scaler.factor(), 65536.0);
  scaler.update(true);
  EXPECT_EQ(scaler.factor(), 131072.0);
  for (int i = 0; i < 1999; ++i) scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.factor(), 65536.0);
  for (int i = 0; i < 1999; ++i) scaler.update(true);
  EXPECT_EQ(scaler.factor(), 65536.0) << "the steps are counted from the last change";
  scaler.update(true);
  EXPECT_EQ(scaler.factor(), 131072.0);
}

TEST(GradScaler, TheScaleStaysFinite) {
  GradScaler scaler;
  for (int i = 0; i < 300 * 2000; ++i) scaler.update(true);
  EXPECT_EQ(scaler.factor(), std::ldexp(1.0, 127));
}

TEST(GradScaler, ScalesTheLossInFloat32AndDividesGradientsExactly) {
  const GradScaler scaler;
  const auto scaled = scaler.scale(torch::tensor(3.0, torch::kHalf));
  EXPECT_EQ(scaled.scalar_type(), torch::kFloat);
  EXPECT_EQ(scaled.item<float>(), 3 * 65536.0F);
  EXPECT_EQ(scaler.scale(torch::tensor(3.0, torch::kDouble)).scalar_type(), torch::kDouble);
  const auto gradient = torch::randn({5});
  std::vector<torch::Tensor> gradients{gradient * 65536.0, torch::full({2}, INFINITY)};
  scaler.unscale(gradients);
  EXPECT_TRUE(gradients[0].equal(gradient));
  EXPECT_TRUE(gradients[1].isinf().all().item<bool>());
  EXPECT_NO_THROW(scaler.unscale({}));
}

TEST(GradScaler, ContinuesAfterItsState) {
  GradScaler first;
  for (int i = 0; i < 1500; ++i) first.update(i != 3);
  GradScaler second;
  second.load_state(first.state());
  for (int i = 0; i < 600; ++i) {
    first.update(true);
    second.update(true);
    EXPECT_EQ(second.factor(), first.factor());
  }
  EXPECT_THAT([&] { second.load_state({}); }, throws_naming<InputError>("factor"));
  auto state = first.state();
  state["growth_tracker"] = torch::tensor(int64_t{2000});
  EXPECT_THAT([&] { second.load_state(state); }, throws_naming<InputError>("2000"));
  state = first.state();
  state["factor"] = torch::tensor(-1.0F);
  EXPECT_THAT([&] { second.load_state(state); }, throws_naming<InputError>("-1"));
}

Recipe fp16_recipe(const std::string& task, int64_t steps) {
  auto recipe = small_recipe(task, steps);
  recipe.training.precision = Precision::fp16;
  recipe.training.log_every = 1;
  return recipe;
}

torch::Tensor first_weight_of(const SmallRun& run) {
  return module_of(run.model).parameters().front();
}

/// A `stop_requested` that makes the gradient of the steps from `first` to `last` infinite.
auto infinite_gradients(const SmallRun& run, int64_t first, int64_t last) {
  return [&run, first, last, step = int64_t{0}, hook = 0U]() mutable {
    const auto weight = first_weight_of(run);
    ++step;  // steps done
    if (step == first - 1) {
      hook = weight.register_hook([](const torch::Tensor& grad) { return grad * INFINITY; });
    }
    if (step == last) weight.remove_hook(hook);
    return false;
  };
}

TEST(TrainerWithLossScaling, SkipsStepsWithNonFiniteGradientsAndHalvesTheScale) {
  SmallRun run(fp16_recipe("senses", 8));
  Recorder recorder;
  std::vector<NamedTensors> after;
  auto stop = infinite_gradients(run, 4, 5);
  const auto result = run.trainer.run({.observers = {&recorder}, .stop_requested = [&] {
                                         after.push_back(run.weights());
                                         return stop();
                                       }});
  EXPECT_EQ(result.state.step, 8);
  EXPECT_EQ(result.state.skipped_steps, 2);
  std::vector<double> scales;
  for (const auto& each : recorder.progress) scales.push_back(each.loss_scale.value());
  EXPECT_THAT(scales, ElementsAre(65536, 65536, 65536, 32768, 16384, 16384, 16384, 16384));
  EXPECT_TRUE(equal_tensors(after.at(2), after.at(4))) << "steps 4 and 5 are skipped";
  EXPECT_FALSE(equal_tensors(after.at(4), after.at(5)));
}

TEST(TrainerWithLossScaling, ResumesBitForBit) {
  const auto trained = [](int64_t stop) {
    const auto recipe = fp16_recipe("senses", 9);
    SmallRun first(recipe);
    auto infinite = infinite_gradients(first, 2, 2);
    int64_t step = 0;
    first.trainer.run({.stop_requested = [&] {
      infinite();
      return ++step == stop;
    }});
    const auto saved = first.trainer.checkpoint();
    SmallRun second(recipe);
    second.trainer.restore(saved);
    second.trainer.run();
    return second.trainer.checkpoint();
  };
  const auto whole = trained(9);
  EXPECT_EQ(whole.state.at("scaler.factor").item<float>(), 32768.0F);
  EXPECT_EQ(whole.state.at("scaler.growth_tracker").item<int64_t>(), 7);
  for (const int64_t stop : {2, 5}) {
    const auto resumed = trained(stop);
    EXPECT_TRUE(equal_tensors(resumed.weights, whole.weights)) << stop;
    EXPECT_TRUE(equal_tensors(resumed.state, whole.state)) << stop;
  }
}

TEST(TrainerWithLossScaling, OnNonfiniteAppliesOnceTheScaleIsOne) {
  auto recipe = fp16_recipe("senses", 30);
  for (const bool skips : {false, true}) {
    recipe.training.on_nonfinite = skips ? OnNonFinite::skip : OnNonFinite::stop;
    SmallRun run(recipe);
    const auto train = [&] {
      run.trainer.run({.stop_requested = infinite_gradients(run, 2, 100)});
    };
    if (skips) {
      EXPECT_NO_THROW(train());
      EXPECT_EQ(run.trainer.state().skipped_steps, 29);
      EXPECT_EQ(run.trainer.checkpoint().state.at("scaler.factor").item<float>(), 1.0F);
    } else {  // 65536 = 2^16
      EXPECT_THAT(train, throws<std::runtime_error>("at step 18"));
    }
  }
}

TEST(TrainerWithLossScaling, ANonFiniteLossIsNotTheScale) {
  SmallRun run(fp16_recipe("senses", 4));
  {
    const torch::NoGradGuard no_grad;
    first_weight_of(run).fill_(NAN);
  }
  EXPECT_THAT([&] { run.trainer.run(); }, throws<std::runtime_error>("at step 1"));
}

TEST(TrainerWithLossScaling, TrainsAsFp32UpToRounding) {
  for (const auto* task : {"senses", "translation"}) {
    auto recipe = small_recipe(task, 1);
    recipe.stack().dropout = 0.0;
    const double exact = SmallRun(recipe).trainer.run().state.train_loss;
    recipe.training.precision = Precision::fp16;
    const double rounded = SmallRun(recipe).trainer.run().state.train_loss;
    EXPECT_NE(rounded, exact) << task;
    EXPECT_NEAR(rounded, exact, 0.005) << task;
    auto longer = fp16_recipe(task, 40);
    longer.training.lr = 1e-2;
    longer.training.eval_every = 5;
    SmallRun run(longer);
    Recorder recorder;
    run.trainer.run({.observers = {&recorder}});
    EXPECT_LT(recorder.evaluations.back().loss, recorder.evaluations.front().loss) << task;
    for (const auto& [name, weight] : run.trainer.checkpoint().weights)
      EXPECT_EQ(weight.scalar_type(), torch::kFloat) << name;
  }
}

TEST(TrainerWithLossScaling, OtherPrecisionsHaveNoScale) {
  auto recipe = small_recipe("senses", 2);
  SmallRun run(recipe);
  Recorder recorder;
  run.trainer.run({.observers = {&recorder}});
  EXPECT_FALSE(recorder.progress.back().loss_scale.has_value());
  EXPECT_FALSE(run.trainer.checkpoint().state.contains("scaler.factor"));
}

}  // namespace
}  // namespace attend::train
