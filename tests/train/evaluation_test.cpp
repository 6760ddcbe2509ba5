#include "attend/io/vocabulary.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/regression_metrics.h"
#include "attend/train/task_objective.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

/// Five rows of two tokens, in batches of 3 and 2 rows. All tokens are 0.
class FiveRows : public Task {
 public:
  const Vocabulary& tokenizer() const override { return vocabulary_; }
  Batch training_batch(int64_t, Sampler&) const override { return {}; }
  std::vector<Batch> validation_batches(int64_t) const override {
    ++calls;
    const auto tokens = torch::zeros({5, 2}, torch::kLong);
    const auto labels = torch::tensor({{0, 1}, {0, 1}, {0, 1}, {1, -1}, {0, -1}}, torch::kLong);
    const auto targets = labels.masked_fill(labels < 0, kIgnoreIndex);
    const auto answers = torch::tensor({{1, 1}, {0, 1}, {0, 0}, {1, 0}, {1, 0}}).to(torch::kBool);
    const auto rows = [&](int64_t from, int64_t count) {
      return Batch{tokens.narrow(0, from, count), targets.narrow(0, from, count),
                   answers.narrow(0, from, count)};
    };
    return {rows(0, 3), rows(3, 2)};
  }

  mutable int calls = 0;

 private:
  Vocabulary vocabulary_{TokenizerKind::word, {"zero", "one"}};
};

TEST(Evaluation, LossIsTheMeanOverTargets) {
  Model model = LanguageModel(LanguageModelConfig{
      .vocab_size = 2,
      .max_seq_len = 2,
      .stack = {.num_layers = 0, .embed_dim = 4, .positions = PositionScheme::none}});
  {
    // Logits are (log 3, 0) everywhere: token 0 has probability 3/4 and is the argmax.
    const torch::NoGradGuard no_grad;
    auto& language_model = std::get<LanguageModel>(model);
    auto norm = language_model->decoder->norm.get<LayerNorm>();
    norm->weight.zero_();
    norm->bias.fill_(1.0);
    language_model->embedding->token->weight[0].fill_(std::log(3.0) / 4);
    language_model->embedding->token->weight[1].zero_();
  }
  const auto result = evaluate(model, FiveRows());
  EXPECT_EQ(result.num_targets, 8);
  EXPECT_NEAR(result.loss, (4 * std::log(4.0 / 3.0) + 4 * std::log(4.0)) / 8, 1e-6);
  ASSERT_TRUE(result.accuracy());
  // Of the four rows with answer tokens, only the last row has all of them correct. In the first
  // row, one of two answer tokens is correct.
  EXPECT_DOUBLE_EQ(*result.accuracy(), 0.25);
  EXPECT_EQ(result.exact_match.correct, 1);
  EXPECT_EQ(result.exact_match.total, 4);
  EXPECT_FALSE(result.confusion_matrix.defined());
}

TEST(Evaluation, AccuracyOfAClassifier) {
  Model model =
      SequenceClassifier(SequenceClassifierConfig{.vocab_size = 2,
                                                  .num_classes = 3,
                                                  .max_seq_len = 2,
                                                  .stack = {.num_layers = 0, .embed_dim = 4}});
  {
    const torch::NoGradGuard no_grad;
    auto& head = std::get<SequenceClassifier>(model)->head;
    head->weight.zero_();
    head->bias.copy_(torch::tensor({0.0, 1.0, 0.0}));  // always the second class
  }
  Batch batch{torch::zeros({4, 2}, torch::kLong), torch::tensor({1, 0, 1, 1}, torch::kLong)};
  batch.answers = torch::ones({4}, torch::kBool);
  const auto result = evaluate(model, {batch});
  EXPECT_EQ(result.num_targets, 4);
  EXPECT_DOUBLE_EQ(*result.accuracy(), 0.75);
  const auto matrix = torch::tensor({{0, 1, 0}, {0, 3, 0}, {0, 0, 0}}, torch::kLong);
  EXPECT_TRUE(result.confusion_matrix.equal(matrix)) << result.confusion_matrix;
  EXPECT_TRUE(evaluate(model, {batch, batch}).confusion_matrix.equal(2 * matrix));
}

TEST(Evaluation, OfSeveralLabelsAndOfNumbers) {
  const auto model_with = [](std::vector<float> bias) {
    SequenceClassifier model(SequenceClassifierConfig{.vocab_size = 2,
                                                      .num_classes = std::ssize(bias),
                                                      .max_seq_len = 2,
                                                      .stack = {.num_layers = 0, .embed_dim = 4}});
    const torch::NoGradGuard no_grad;
    model->head->weight.zero_();
    model->head->bias.copy_(torch::tensor(bias));
    return Model(model);
  };
  Batch labels{torch::zeros({3, 2}, torch::kLong),
               torch::tensor({{1.0f, 0.0f}, {1.0f, 1.0f}, {0.0f, 0.0f}})};
  labels.problem = {.type = ProblemType::multi_label_classification, .threshold = 0.5};
  auto classifier = model_with({1.0f, -1.0f});  // always the first label
  auto result = evaluate(classifier, {labels, labels});
  EXPECT_EQ(result.num_targets, 6);
  EXPECT_DOUBLE_EQ(*result.accuracy(), 1.0 / 3);
  EXPECT_EQ(result.confusion_matrix.sizes(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_DOUBLE_EQ(micro_f1(result.confusion_matrix), 2.0 * 4 / (6 + 6));
  const double right = -std::log(1 / (1 + std::exp(-1.0)));
  EXPECT_NEAR(result.loss, (4 * right + 2 * (right + 1)) / 6, 1e-6);
  labels.problem.threshold = 0.8;  // more than the probability 0.73 of the first label
  EXPECT_EQ(evaluate(classifier, {labels}).confusion_matrix.select(2, 1).sum().item<int64_t>(), 0);

  Batch numbers{torch::zeros({2, 2}, torch::kLong), torch::tensor({{1.0f}, {4.0f}})};
  numbers.problem.type = ProblemType::regression;
  auto regressor = model_with({2.0f});
  result = evaluate(regressor, {numbers});
  EXPECT_DOUBLE_EQ(result.loss, (1.0 + 4.0) / 2);
  EXPECT_FALSE(result.accuracy());
  EXPECT_FALSE(result.f1);
  EXPECT_DOUBLE_EQ(regression_metrics(result.moments).mae, 1.5);
}

TEST(Evaluation, MakesTheValidationDataOnce) {
  const auto task = std::make_shared<FiveRows>();
  Model model = LanguageModel(LanguageModelConfig{
      .vocab_size = 2, .max_seq_len = 2, .stack = {.num_layers = 0, .embed_dim = 4}});
  TaskObjective objective(model, task, TrainingConfig{});
  objective.module().eval();
  const torch::NoGradGuard no_grad;  // as `evaluate`: kernels with gradients round differently
  const auto first = objective.evaluate({});
  EXPECT_EQ(objective.evaluate({}).loss, first.loss);
  EXPECT_EQ(first.loss, evaluate(model, *std::make_shared<FiveRows>()).loss);
  EXPECT_EQ(task->calls, 1);
}

TEST(Evaluation, ReportsEachBatch) {
  const auto recipe = small_recipe("sort");
  SmallRun run(recipe);
  const auto batches = run.task->validation_batches(kEvalBatchSize);
  using Reports = std::vector<std::pair<int64_t, int64_t>>;
  Reports reports;
  const auto add = [&](int64_t done, int64_t count) { reports.emplace_back(done, count); };
  evaluate(run.model, batches, Precision::fp32, add);
  ASSERT_EQ(reports.size(), batches.size());
  EXPECT_EQ(reports.front(), std::pair(int64_t{1}, std::ssize(batches)));
  EXPECT_EQ(reports.back(), std::pair(std::ssize(batches), std::ssize(batches)));
  reports.clear();
  TaskObjective(run.model, run.task, recipe.training).evaluate({.max_batches = 1, .on_batch = add});
  EXPECT_EQ(reports, (Reports{{1, 1}}));
}

TEST(Evaluation, RestoresTrainMode) {
  Model model = LanguageModel(
      LanguageModelConfig{.vocab_size = 2,
                          .max_seq_len = 2,
                          .stack = {.num_layers = 1, .num_heads = 1, .embed_dim = 4}});
  module_of(model).train();
  evaluate(model, FiveRows());
  EXPECT_TRUE(module_of(model).is_training());
  for (const auto& parameter : module_of(model).parameters())
    EXPECT_FALSE(parameter.grad().defined());
}

TEST(Evaluation, SpreadsABoundedNumberOfBatches) {
  EXPECT_EQ(spread(3, 0), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(spread(3, 5), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(spread(10, 4), (std::vector<int64_t>{0, 2, 5, 7}));
  EXPECT_TRUE(spread(0, 4).empty());
}

TEST(Evaluation, OfAPartOfTheDataIsMarked) {
  const auto recipe = small_recipe("sort");
  SmallRun run(recipe);
  TaskObjective objective(run.model, run.task, recipe.training);
  const auto batches = run.task->validation_batches(kEvalBatchSize);
  ASSERT_GT(batches.size(), 1U);
  const auto all = objective.evaluate({});
  EXPECT_FALSE(all.is_partial);
  EXPECT_FALSE(objective.evaluate({.max_batches = std::ssize(batches)}).is_partial);
  module_of(run.model).eval();
  const torch::NoGradGuard no_grad;
  const auto part = objective.evaluate({.max_batches = 1});
  EXPECT_TRUE(part.is_partial);
  EXPECT_LT(part.num_targets, all.num_targets);
  EXPECT_EQ(part.loss, evaluate(run.model, {batches.front()}).loss);
}

}  // namespace
}  // namespace attend::train
