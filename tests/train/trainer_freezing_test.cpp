// Parameters that are frozen or unfrozen during training.
#include "attend/nn/freezing.h"
#include "attend/train/trainer.h"
#include "support/small_runs.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

constexpr int64_t kTotalSteps = 10;
constexpr int64_t kChangedAt = 4;

LanguageModel& language_model(SmallRun& run) {
  return std::get<LanguageModel>(run.model);
}

class FreezingDuringTraining : public testing::TestWithParam<OptimizerKind> {
 protected:
  FreezingDuringTraining() { recipe_.training.optimizer = GetParam(); }

  /// Trains from `start` to step `until`. If `frozen_first`, the decoder is frozen up to step
  /// `kChangedAt` and then unfrozen; otherwise, it is frozen after that step.
  Checkpoint train(bool frozen_first, const std::optional<Checkpoint>& start, int64_t until) {
    SmallRun run(recipe_);
    auto& decoder = *language_model(run)->decoder;
    if (frozen_first) freeze(decoder);
    int64_t step = 0;
    if (start) {
      run.trainer.restore(*start);
      step = start->trainer_state.step;
    }
    run.trainer.run({.stop_requested = [&] {
      ++step;
      if (step == kChangedAt) frozen_first ? unfreeze(decoder) : freeze(decoder);
      if (step == kChangedAt) at_change_ = run.weights();
      if (step == kChangedAt + 1) after_change_ = run.weights();
      return step == until;
    }});
    return run.trainer.checkpoint();
  }

  static bool is_of_decoder(const std::string& name) { return name.starts_with("decoder."); }

  Recipe recipe_ = small_recipe("senses", kTotalSteps);
  NamedTensors at_change_;
  NamedTensors after_change_;
};

TEST_P(FreezingDuringTraining, UnfrozenParametersAreOptimized) {
  SmallRun fresh(recipe_);
  const auto initial = fresh.weights();
  train(/*frozen_first=*/true, {}, kTotalSteps);
  for (const auto& [name, tensor] : at_change_) {
    EXPECT_EQ(tensor.equal(initial.at(name)), is_of_decoder(name)) << name;
    EXPECT_FALSE(tensor.equal(after_change_.at(name))) << name;
  }
}

TEST_P(FreezingDuringTraining, FrozenParametersAreNotChangedAndDoNotDecay) {
  const auto end = train(/*frozen_first=*/false, {}, kTotalSteps);
  for (const auto& [name, tensor] : at_change_) {
    EXPECT_EQ(tensor.equal(end.weights.at(name)), is_of_decoder(name)) << name;
  }
}

TEST_P(FreezingDuringTraining, ResumesBitwise) {
  for (const bool frozen_first : {true, false}) {
    const auto whole = train(frozen_first, {}, kTotalSteps);
    for (const int64_t stop : {kChangedAt - 1, kChangedAt, kChangedAt + 1, kTotalSteps - 1}) {
      const auto resumed = train(frozen_first, train(frozen_first, {}, stop), kTotalSteps);
      EXPECT_TRUE(equal_tensors(resumed.weights, whole.weights)) << frozen_first << ' ' << stop;
      EXPECT_TRUE(equal_tensors(resumed.state, whole.state)) << frozen_first << ' ' << stop;
    }
  }
}

TEST_P(FreezingDuringTraining, UnfrozenParametersAreClipped) {
  recipe_.training.max_grad_norm = 0.01;
  SmallRun run(recipe_);
  auto& model = language_model(run);
  freeze(*model->decoder);
  int64_t step = 0;
  run.trainer.run({.stop_requested = [&] {
    if (++step == kChangedAt) unfreeze(*model->decoder);
    double squares = 0.0;
    for (const auto& parameter : model->parameters()) {
      if (parameter.grad().defined())
        squares += parameter.grad().to(torch::kDouble).square().sum().item<double>();
    }
    EXPECT_LE(std::sqrt(squares), 0.01 + 1e-6) << step;
    return false;
  }});
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FreezingDuringTraining,
                         testing::Values(OptimizerKind::adamw, OptimizerKind::muon));

}  // namespace
}  // namespace attend::train
