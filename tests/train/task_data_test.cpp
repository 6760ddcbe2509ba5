#include "attend/train/loss.h"
#include "attend/train/task.h"
#include "attend/train/task_objective.h"
#include "support/small_runs.h"
#include "support/task_examples.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

#include <set>

namespace attend::train {
namespace {

/// Every task with its default recipe.
class EveryTask : public testing::TestWithParam<std::size_t> {
 protected:
  const TaskInfo& info() const { return tasks().at(GetParam()); }
  bool asks() const {
    return info().name != std::string("text") && info().name != std::string("senses") &&
           info().name != std::string("masked-lm");
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = recipe_with_text(info(), directory_.path());
  std::unique_ptr<Task> task_ = make_task(recipe_);
};

bool equal_batches(const Batch& one, const Batch& other) {
  const auto equal = [](const torch::Tensor& a, const torch::Tensor& b) {
    return a.defined() == b.defined() && (!a.defined() || a.equal(b));
  };
  return equal(one.tokens, other.tokens) && equal(one.targets, other.targets) &&
         equal(one.answers, other.answers) && equal(one.key_mask, other.key_mask) &&
         equal(one.decoder_tokens, other.decoder_tokens);
}

TEST_P(EveryTask, EqualSamplerStatesGiveEqualBatches) {
  Sampler sampler(11);
  task_->training_batch(7, sampler);
  Sampler restored(12);
  restored.load_state(sampler.state());
  const auto batch = task_->training_batch(9, sampler);
  EXPECT_TRUE(equal_batches(task_->training_batch(9, restored), batch));
  EXPECT_EQ(batch.tokens.size(0), 9);
  Sampler other(13);
  EXPECT_FALSE(equal_batches(task_->training_batch(9, other), batch));
}

// The global generators of several processes differ.
TEST_P(EveryTask, BatchesDoNotDependOnTheGlobalGenerators) {
  const auto batch_with = [&](uint64_t seed) {
    torch::manual_seed(seed);
    Sampler sampler(11);
    return task_->training_batch(7, sampler);
  };
  EXPECT_TRUE(equal_batches(batch_with(1), batch_with(2)));
}

TEST_P(EveryTask, EqualRecipesGiveEqualTasks) {
  const auto again = make_task(recipe_);
  EXPECT_EQ(again->tokenizer().size(), task_->tokenizer().size());
  EXPECT_EQ(again->classes(), task_->classes());
  EXPECT_EQ(again->data_checksum(), task_->data_checksum());
  EXPECT_TRUE(
      equal_batches(again->validation_batches(64).front(), task_->validation_batches(64).front()));
}

TEST_P(EveryTask, ValidationDataDoesNotDependOnTheSeed) {
  auto other = recipe_;
  other.training.seed = 77;
  EXPECT_TRUE(equal_batches(make_task(other)->validation_batches(64).front(),
                            task_->validation_batches(64).front()));
}

TEST_P(EveryTask, ValidationAndTrainingPromptsDoNotOverlap) {
  if (!asks()) GTEST_SKIP() << "has no prompts";
  std::set<std::string> validation;
  for (const auto& batch : task_->validation_batches(100)) {
    for (const auto& example : examples_in(batch, *task_)) validation.insert(example.prompt);
  }
  for (const auto& example : task_->samples()) EXPECT_EQ(validation.count(example.prompt), 1U);
  EXPECT_GT(validation.size(), 100U);
  Sampler sampler(3);
  for (int i = 0; i < 40; ++i) {
    for (const auto& example : examples_in(task_->training_batch(100, sampler), *task_)) {
      ASSERT_EQ(validation.count(example.prompt), 0U) << example.prompt;
    }
  }
}

TEST_P(EveryTask, ValidationDoesNotDependOnTheBatchSize) {
  const auto count = [&](int64_t size) {
    int64_t targets = 0;
    for (const auto& batch : task_->validation_batches(size)) {
      EXPECT_LE(batch.tokens.size(0), size);
      targets += num_targets(batch);
    }
    return targets;
  };
  EXPECT_EQ(count(7), count(64));
}

TEST_P(EveryTask, ModelAcceptsBatches) {
  recipe_.stack().num_layers = 1;
  recipe_.stack().embed_dim = 16;
  auto model = make_model(recipe_, task_->tokenizer().size(), task_->classes().size());
  Sampler sampler(3);
  for (const auto& batch :
       {task_->training_batch(3, sampler), task_->validation_batches(3).front()}) {
    const auto logits = logits_of(model, batch);
    EXPECT_EQ(logits.sizes().slice(0, logits.sizes().size() - 1), batch.targets.sizes());
    EXPECT_LT(batch.targets.max().item<int64_t>(), logits.size(-1));
    EXPECT_GE(batch.targets.masked_select(batch.targets.ne(kIgnoreIndex)).min().item<int64_t>(), 0);
    if (batch.answers.defined()) {
      EXPECT_FALSE(batch.answers.logical_and(batch.targets.eq(kIgnoreIndex)).any().item<bool>())
          << "every answer token must have a target";
    }
  }
}

TEST_P(EveryTask, AllClassesOccur) {
  const auto classes = task_->classes();
  if (classes.empty()) GTEST_SKIP() << "has no classes";
  Sampler sampler(3);
  for (const auto& batch :
       {task_->training_batch(200, sampler), task_->validation_batches(200).front()}) {
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const auto count = batch.targets.eq(static_cast<int64_t>(i)).sum().item<int64_t>();
      EXPECT_GT(count, batch.targets.size(0) * 3 / 10)
          << classes[i] << ": the classes must be about equally frequent";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::Range<std::size_t>(0, tasks().size()),
                         [](const auto& info) {
                           std::string name = tasks().at(info.param).name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace attend::train
