// Saving and loading optimizer state.
#include "attend/input_error.h"
#include "attend/models/language_model.h"
#include "attend/train/optimizer.h"
#include "support/seed.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/serialize.h>

#include <sstream>

namespace attend::train {
namespace {

using State = std::map<std::string, torch::Tensor>;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

LanguageModel make_model(bool tie_embeddings) {
  return LanguageModel(LanguageModelConfig{
      .vocab_size = 7,
      .max_seq_len = 6,
      .tie_embeddings = tie_embeddings,
      .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8, .num_experts = 2}});
}

State copied(const State& state) {
  State copies;
  for (const auto& [name, tensor] : state) copies.emplace(name, tensor.clone());
  return copies;
}

/// Trains for 5 steps on random tokens from a generator with seed `first`.
void make_steps(LanguageModel& model, Optimizer& optimizer, uint64_t first) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(first);
  for (int i = 0; i < 5; ++i) {
    const auto tokens = torch::randint(7, {2, 6}, generator);
    optimizer.zero_grad();
    model(tokens).log_softmax(-1).select(-1, 3).sum().neg().backward();
    set_lr(optimizer, 0.01 * (i + 1));
    optimizer.step();
  }
}

bool equal_parameters(const LanguageModel& a, const LanguageModel& b) {
  const auto of_a = a->parameters();
  const auto of_b = b->parameters();
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (!of_a[i].equal(of_b[i])) return false;
  }
  return of_a.size() == of_b.size();
}

/// Each test runs with both optimizers, and with tied and untied embeddings.
class OptimizerState : public testing::TestWithParam<std::tuple<OptimizerKind, bool>> {
 protected:
  std::unique_ptr<Optimizer> make(const LanguageModel& model) const {
    TrainingConfig config;
    config.optimizer = std::get<0>(GetParam());
    return make_optimizer(*model, config);
  }
  LanguageModel model_ = make_model(std::get<1>(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(
    Optimizers, OptimizerState,
    testing::Combine(testing::Values(OptimizerKind::adamw, OptimizerKind::muon), testing::Bool()));

TEST_P(OptimizerState, ContinuesBitwiseAfterLoadState) {
  const auto seed = seed_afresh();
  const auto optimizer = make(model_);
  make_steps(model_, *optimizer, seed);
  const auto state = copied(optimizer->named_state());
  LanguageModel resumed(std::dynamic_pointer_cast<LanguageModelImpl>(model_->clone()));
  LanguageModel forgetful(std::dynamic_pointer_cast<LanguageModelImpl>(model_->clone()));
  make_steps(model_, *optimizer, seed + 1);

  const auto its_optimizer = make(resumed);
  its_optimizer->load_named_state(state);
  make_steps(resumed, *its_optimizer, seed + 1);
  EXPECT_TRUE(equal_parameters(resumed, model_));

  make_steps(forgetful, *make(forgetful), seed + 1);
  EXPECT_FALSE(equal_parameters(forgetful, model_));
}

TEST_P(OptimizerState, StateReturnsViewsAndLoadStateCopies) {
  const auto optimizer = make(model_);
  const auto views = optimizer->named_state();
  const auto before = copied(views);
  make_steps(model_, *optimizer, seed_afresh());
  const std::string name = "decoder.norm.weight/exp_avg";
  EXPECT_FALSE(views.at(name).equal(before.at(name)));
  optimizer->load_named_state(before);
  EXPECT_TRUE(views.at(name).equal(before.at(name)));
  EXPECT_FALSE(views.at(name).is_alias_of(before.at(name)));
}

TEST_P(OptimizerState, LoadStateListsAllDifferencesAndChangesNothing) {
  const auto optimizer = make(model_);
  make_steps(model_, *optimizer, seed_afresh());
  const auto before = copied(optimizer->named_state());
  auto state = copied(before);
  for (auto& item : state) item.second.add_(1);
  state.erase("decoder.norm.weight/exp_avg");
  state["decoder.norm.wait/exp_avg"] = torch::zeros({8});
  state["decoder.norm.weight/exp_avg_sq"] = torch::zeros({8}, torch::kDouble);
  state["decoder.norm.bias/exp_avg_sq"] = torch::zeros({2, 4});
  EXPECT_THAT(
      [&] { optimizer->load_named_state(state); },
      ThrowsMessage<InputError>(
          AllOf(HasSubstr("decoder.norm.weight/exp_avg: missing"),
                HasSubstr("decoder.norm.wait/exp_avg: unexpected"),
                HasSubstr("decoder.norm.weight/exp_avg_sq: found dtype float64, expected float32"),
                HasSubstr("decoder.norm.bias/exp_avg_sq: found shape (2, 4), expected (8)"))));
  for (const auto& [name, tensor] : optimizer->named_state()) {
    EXPECT_TRUE(tensor.equal(before.at(name))) << name;
  }
}

TEST_P(OptimizerState, IsSavedByTorchSave) {
  const auto seed = seed_afresh();
  const auto optimizer = make(model_);
  make_steps(model_, *optimizer, seed);
  std::stringstream file;
  torch::save(*optimizer, file);
  const auto loaded = make(model_);
  torch::load(*loaded, file);
  const auto expected = optimizer->named_state();
  const auto found = loaded->named_state();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(found.at(name).equal(tensor)) << name;
  EXPECT_EQ(loaded->param_groups().front().options().get_lr(), 0.05);
}

TEST_P(OptimizerState, StepCallsItsClosure) {
  const auto optimizer = make(model_);
  const torch::NoGradGuard no_grad;
  const auto before = model_->parameters().front().clone();
  const auto loss = optimizer->step([&] {
    auto sum = model_(torch::zeros({1, 3}, torch::kLong)).square().sum();
    sum.backward();
    return sum;
  });
  EXPECT_TRUE(loss.requires_grad());
  EXPECT_FALSE(model_->parameters().front().equal(before));
  EXPECT_FALSE(optimizer->step().defined());
}

TEST_P(OptimizerState, ASecondParameterGroupThrows) {
  const auto optimizer = make(model_);
  const std::vector<torch::Tensor> more{torch::ones({2}, torch::requires_grad())};
  optimizer->add_param_group(torch::optim::OptimizerParamGroup(more));
  EXPECT_THAT([&] { optimizer->step(); }, throws_naming<c10::ValueError>("2", "add_param_group"));
}

TEST(OptimizerStateOfAnother, Throws) {
  const auto model = make_model(/*tied=*/true);
  TrainingConfig config;
  const auto adamw = make_optimizer(model, config);
  config.optimizer = OptimizerKind::muon;
  const auto muon = make_optimizer(model, config);
  EXPECT_THAT([&] { muon->load_named_state(adamw->named_state()); },
              throws_naming<InputError>("decoder.blocks.0.attention.qkv.weight/momentum_buffer",
                                        "decoder.blocks.0.attention.qkv.weight/exp_avg"));
}

}  // namespace
}  // namespace attend::train
