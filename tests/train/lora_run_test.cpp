// Runs that train low-rank adapters of the weights of another run.
#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/checkpoint.h"
#include "attend/nn/lora.h"
#include "attend/train/initial_model.h"
#include "attend/train/training_run.h"
#include "io/files.h"
#include "support/lora.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "train/run_record.h"
#include "train/source_model.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LoraRunTest : public testing::Test {
 protected:
  LoraRunTest() { train("base", small_recipe("copy", 8)); }

  fs::path path(const std::string& name) const { return directory_ / name; }

  /// Trains a run in the directory `name`.
  void train(const std::string& name, const Recipe& recipe, const std::string& init_from = {}) {
    auto run = begin(name, recipe, init_from);
    run.finish(run.train());
  }

  TrainingRun begin(const std::string& name, const Recipe& recipe,
                    const std::string& init_from = {}) {
    return make_training_run(path(name), recipe,
                             {.mode = RunMode::overwrite,
                              .init_from = init_from.empty() ? fs::path() : path(init_from)});
  }

  /// Returns a recipe for adapters of the run `base`.
  Recipe tuned(int64_t steps = 6) const {
    auto recipe = fine_tuning_recipe(RunDirectory::open(path("base")).recipe(), "copy");
    recipe.training = small_recipe("copy", steps).training;
    recipe.training.seed = 9;
    recipe.lora = {.rank = 2, .dropout = 0.1};
    return recipe;
  }

  NamedTensors best_weights(const std::string& name) const {
    return RunDirectory::open(path(name)).state_dict(Weights::best);
  }

  TemporaryDirectory directory_;
};

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& item : tensors) names.push_back(item.first);
  return names;
}

TEST_F(LoraRunTest, ContainsTheAdaptersAlone) {
  train("run", tuned(), "base");
  EXPECT_FALSE(fs::exists(path("run") / "model.safetensors"));
  const auto own = load_safetensors(path("run") / "adapter.safetensors").tensors;
  EXPECT_THAT(names_of(own), Each(HasSubstr(".lora")));
  const auto checkpoint = RunDirectory::open(path("run")).checkpoints().load_latest().value();
  EXPECT_EQ(names_of(checkpoint.weights), names_of(own));
  EXPECT_EQ(names_of(checkpoint.best), names_of(own));
  for (const auto& [name, tensor] : own) {
    EXPECT_GT(tensor.abs().max().item<double>(), 0) << name;  // B began with 0
  }
  // The optimizer's state has no elements for other parameters.
  int64_t elements = 0;
  for (const auto& [name, tensor] : checkpoint.state) {
    if (name.starts_with("optimizer")) elements += tensor.numel();
  }
  int64_t trained = 0;
  for (const auto& [name, tensor] : own) trained += tensor.numel();
  EXPECT_LT(elements, 2 * trained + 1000);
}

TEST_F(LoraRunTest, IsLoadedWithItsBase) {
  train("run", tuned(), "base");
  const auto run = RunDirectory::open(path("run")).load();
  const auto& module = module_of(run.model);
  EXPECT_EQ(run.recipe.lora.rank, 2);
  auto expected = best_weights("base");
  expected.merge(best_weights("run"));
  EXPECT_TRUE(equal_tensors(state_dict(module), expected));
  EXPECT_FALSE(module.is_training());
  const auto last = RunDirectory::open(path("run")).load(Weights::last);
  EXPECT_EQ(lora_adapters(module_of(last.model)).size(), lora_adapters(module).size());

  // The loss of the loaded model is that of the training.
  const auto summary = RunDirectory::open(path("run")).summary().value();
  auto model = run.model;
  EXPECT_NEAR(evaluate(model, *run.make_task()).loss, summary.val_loss, 1e-6);
}

TEST_F(LoraRunTest, ResumesBitForBit) {
  train("whole", tuned(), "base");
  for (const int64_t stop : {1, 3, 5}) {
    {
      auto run = begin("run", tuned(), "base");
      int64_t step = 0;
      run.train({.stop_requested = [&] { return ++step == stop; }});
    }
    auto run = make_training_run(path("run"), tuned(), {.mode = RunMode::resume});
    EXPECT_TRUE(run.is_resumed());
    run.finish(run.train());
    EXPECT_TRUE(equal_tensors(best_weights("run"), best_weights("whole"))) << stop;
    const auto last = [&](const char* name) {
      return RunDirectory::open(path(name)).checkpoints().load_latest().value();
    };
    EXPECT_TRUE(equal_tensors(last("run").weights, last("whole").weights)) << stop;
    EXPECT_TRUE(equal_tensors(last("run").state, last("whole").state)) << stop;
  }
}

TEST_F(LoraRunTest, RefusesABaseThatIsMissingOrHasChanged) {
  train("run", tuned(), "base");
  const auto base = RunDirectory::open(path("run")).record().base.value();
  EXPECT_EQ(base.path, fs::absolute(path("base")));
  const auto loading = [&] { RunDirectory::open(path("run")).load(); };
  const auto resuming = [&, recipe = tuned(9)] {
    make_training_run(path("run"), recipe, {.mode = RunMode::resume});
  };
  EXPECT_NO_THROW(loading());

  fs::rename(path("base"), path("moved"));
  EXPECT_THAT(loading, throws_naming<InputError>(path("run"), base.path, base.checksum));
  EXPECT_THAT(resuming, throws_naming<InputError>(path("run"), base.path, base.checksum));

  auto other = small_recipe("copy", 8);
  other.training.seed = 5;
  train("base", other);
  EXPECT_THAT(loading, throws_naming<InputError>(path("run"), base.path, base.checksum));
  EXPECT_THAT(resuming, throws_naming<InputError>(path("run"), base.path, base.checksum));

  fs::remove_all(path("base"));
  fs::rename(path("moved"), path("base"));
  EXPECT_NO_THROW(loading());
}

TEST_F(LoraRunTest, ResumeChecksTheOptionsOfTheAdapters) {
  train("run", tuned(), "base");
  auto recipe = tuned(9);
  recipe.lora.rank = 3;
  EXPECT_THAT([&] { make_training_run(path("run"), recipe, {.mode = RunMode::resume}); },
              throws_naming<InputError>("lora_rank", "2", "3"));
}

TEST_F(LoraRunTest, RequiresInitialWeightsAndKnownTargets) {
  EXPECT_THAT([&] { begin("run", tuned()); },
              throws_naming<InputError>("lora_rank", "2", "--init-from"));
  auto recipe = tuned();
  recipe.lora.targets = "qkv,q_proj";
  EXPECT_THAT([&] { begin("run", recipe, "base"); },
              throws_naming<InputError>("lora_targets", "q_proj", "qkv"));
  for (const char* targets : {"qkv,", ",qkv", "qkv,,out", ","}) {
    recipe.lora.targets = targets;
    EXPECT_THAT([&] { begin("run", recipe, "base"); }, throws_naming<InputError>("lora_targets"))
        << targets;
  }
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(LoraRunTest, NewLayersAreTrainedInFull) {
  std::string text = "text,label\n";
  for (int i = 0; i < 40; ++i) text += "the fox,one\nthe hen,two\n";
  replace_file(path("table.csv"), text);
  auto base = small_recipe("labelled-lines", 8);
  base.text = {path("table.csv").string()};
  train("classifier", base);
  auto other = text;
  for (auto at = other.find("two"); at != other.npos; at = other.find("two", at))
    other.replace(at, 3, "three");
  replace_file(path("other.csv"), other);
  auto recipe = fine_tuning_recipe(base, "labelled-lines");
  recipe.text = {path("other.csv").string()};
  recipe.training = small_recipe("labelled-lines", 6).training;
  recipe.lora.rank = 2;
  recipe.lora.targets = "qkv,head";
  EXPECT_THAT([&] { begin("run", recipe, "classifier"); },
              throws_naming<InputError>("lora_targets", "qkv,head", path("classifier")));
  EXPECT_FALSE(fs::exists(path("run")));
  recipe.lora.targets = LoraConfig().targets;
  train("run", recipe, "classifier");
  const auto own = best_weights("run");
  EXPECT_TRUE(own.contains("head.weight"));
  EXPECT_TRUE(own.contains("head.bias"));
  EXPECT_FALSE(own.contains("embedding.token.weight"));
  const auto run = RunDirectory::open(path("run")).load();
  EXPECT_TRUE(state_dict(module_of(run.model)).at("head.weight").equal(own.at("head.weight")));
  EXPECT_THAT(run.classes, ElementsAre("one", "three"));
  // The head of a model with the same classes is not new.
  recipe.text = base.text;
  recipe.lora.targets = "head";
  EXPECT_NO_THROW(begin("same", recipe, "classifier"));
}

TEST_F(LoraRunTest, CanBeTheSourceOfAnotherRun) {
  train("run", tuned(), "base");
  auto merged = RunDirectory::open(path("run")).load();
  merge_lora(module_of(merged.model));
  remove_lora(module_of(merged.model));
  const auto expected = state_dict(module_of(merged.model));

  auto whole = tuned();
  whole.lora = {};
  EXPECT_TRUE(
      equal_tensors(state_dict(module_of(begin("all", whole, "run").setup().model)), expected));
  train("again", tuned(), "run");
  EXPECT_EQ(RunDirectory::open(path("again")).record().base->path, fs::absolute(path("run")));
  EXPECT_NO_THROW(RunDirectory::open(path("again")).load());
}

TEST_F(LoraRunTest, AnAdapterOfATiedHeadUntiesIt) {
  auto recipe = tuned();
  ASSERT_TRUE(std::get<LanguageModelConfig>(recipe.model).tie_embeddings);
  recipe.lora.targets = "head,out";
  train("run", recipe, "base");
  EXPECT_THAT(names_of(best_weights("run")), Each(HasSubstr(".lora.")));
  auto loaded = RunDirectory::open(path("run")).load();
  const auto& model = std::get<LanguageModel>(loaded.model);
  EXPECT_TRUE(model->head->weight.equal(model->embedding->token->weight));
  const auto summary = RunDirectory::open(path("run")).summary().value();
  EXPECT_NEAR(evaluate(loaded.model, *loaded.make_task()).loss, summary.val_loss, 1e-6);
  {
    auto stopped = begin("stopped", recipe, "base");
    int64_t step = 0;
    stopped.train({.stop_requested = [&] { return ++step == 2; }});
  }
  auto resumed = make_training_run(path("stopped"), recipe, {.mode = RunMode::resume});
  resumed.finish(resumed.train());
  EXPECT_TRUE(equal_tensors(best_weights("stopped"), best_weights("run")));

  // A run that begins with it has two weights.
  loaded.merge_adapters();
  EXPECT_FALSE(std::get<LanguageModelConfig>(loaded.recipe.model).tie_embeddings);
  const auto source = InitialModel(path("run")).recipe();
  EXPECT_FALSE(std::get<LanguageModelConfig>(source.model).tie_embeddings);
  for (const int64_t rank : {0, 2}) {
    auto next = fine_tuning_recipe(source, "copy");
    next.training = recipe.training;
    next.lora = {.rank = rank, .targets = "head"};
    auto expected = state_dict(module_of(loaded.model));
    const auto own = state_dict(module_of(begin("next", next, "run").setup().model));
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(own.at(name).equal(tensor)) << name;
    EXPECT_EQ(own.contains("head.lora.A"), rank > 0);
    train("next", next, "run");
    EXPECT_NO_THROW(RunDirectory::open(path("next")).load());
  }
}

TEST_F(LoraRunTest, ReplacesNoRunThatItNeeds) {
  train("run", tuned(), "base");
  train("again", tuned(), "run");
  fs::create_directory_symlink(path("base"), path("link"));
  const std::vector<std::pair<std::string, std::string>> refused{
      {"base", "base"}, {"base", "link"},  {"run", "base"},    {"run", "link"},
      {"run", "run"},   {"again", "base"}, {"again", "again"}, {"again", "run"}};
  for (const auto& each : refused) {
    EXPECT_THAT([&] { begin(each.second, tuned(), each.first); },
                throws_naming<InputError>(path(each.first), path(each.second)));
  }
  EXPECT_NO_THROW(RunDirectory::open(path("again")).load());
  train("again", tuned(), "base");  // which does not need the replaced run
  auto whole = tuned();
  whole.lora = {};
  train("base", whole, "run");  // needs no base
  EXPECT_NO_THROW(RunDirectory::open(path("base")).load());
}

TEST_F(LoraRunTest, ChecksumOfAChainDoesNotDependOnMergedWeights) {
  // Adapters that are not trained do not change the merged weights.
  for (const int64_t seed : {1, 2}) {
    auto untrained = tuned();
    untrained.training.lr = 0;
    untrained.training.seed = seed;
    const auto name = std::to_string(seed);
    train(name, untrained, "base");
    train("of " + name, tuned(), name);
  }
  EXPECT_TRUE(equal_tensors(best_weights("of 1"), best_weights("of 2")));
  EXPECT_FALSE(equal_tensors(best_weights("1"), best_weights("2")));
  const auto checksum = [&](const std::string& name) { return load_source(path(name)).checksum; };
  EXPECT_NE(checksum("1"), checksum("2"));
  EXPECT_NE(checksum("of 1"), checksum("of 2"));
  EXPECT_EQ(checksum("1"), RunDirectory::open(path("of 1")).record().base->checksum);
}

TEST_F(LoraRunTest, ARunThatIsItsOwnBaseIsRefused) {
  train("run", tuned(), "base");
  auto record = read_record(path("run") / RunFiles::data);
  record.base->path = path("run");
  replace_file(path("run") / RunFiles::data, to_json(record));
  EXPECT_THAT([&] { RunDirectory::open(path("run")).load(); },
              throws_naming<InputError>(path("run")));
}

/// A module of LibTorch, whose forward pass does not know adapters.
struct Regression : Objective {
  torch::nn::Module& module() override { return *net; }
  TrainingBatch training_batch(int64_t size, Sampler&) override {
    return {.num_targets = size, .num_tokens = size, .loss = [=, this]() -> TrainingLoss {
              return {(net->forward(x) - y).square().sum()};
            }};
  }
  Evaluation evaluate(const EvaluationOptions&) override {
    return {.loss = (net->forward(x) - y).square().mean().item<double>(), .num_targets = 8};
  }

  torch::nn::Sequential net{torch::nn::Linear(3, 6), torch::nn::Linear(6, 1)};
  torch::Tensor x = torch::randn({8, 3});
  torch::Tensor y = torch::randn({8, 1});
};

TEST(TrainerWithAdapters, TrainsModulesThatCallCheckpoint) {
  struct Checkpointed : Regression {
    TrainingBatch training_batch(int64_t size, Sampler&) override {
      return {.num_targets = size, .num_tokens = size, .loss = [=, this]() -> TrainingLoss {
                const auto forward = [this](const torch::Tensor& in) { return net->forward(in); };
                return {(checkpoint(forward, x, net->parameters()) - y).square().sum()};
              }};
    }
  };
  const auto trained = [](const std::shared_ptr<Regression>& objective) {
    torch::manual_seed(1);
    objective->net = torch::nn::Sequential(torch::nn::Linear(3, 6), torch::nn::Linear(6, 1));
    objective->x = torch::randn({8, 3});
    objective->y = torch::randn({8, 1});
    add_lora(objective->net, {.rank = 2, .targets = {"0", "1"}});
    Trainer(objective, {.max_steps = 5, .lr = 0.02, .warmup_steps = 0}).run();
    return state_dict(objective->module());
  };
  EXPECT_TRUE(equal_tensors(trained(std::make_shared<Checkpointed>()),
                            trained(std::make_shared<Regression>())));
}

TEST(TrainerWithAdapters, TrainsModulesOfLibTorch) {
  torch::manual_seed(1);
  const auto objective = std::make_shared<Regression>();
  add_lora(objective->net, {.rank = 2, .targets = {"0", "1"}});
  const auto base = objective->net->ptr<torch::nn::LinearImpl>(0)->weight.clone();
  const auto before = objective->evaluate({}).loss;
  Trainer trainer(objective, {.max_steps = 60, .lr = 0.02, .warmup_steps = 0, .eval_every = 20});
  const auto result = trainer.run();
  EXPECT_LT(result.state.best->loss, 0.8 * before);
  EXPECT_TRUE(objective->net->ptr<torch::nn::LinearImpl>(0)->weight.equal(base));
  merge_lora(objective->net);
  EXPECT_NEAR(objective->evaluate({}).loss, result.state.last->loss, 1e-5);
}

}  // namespace
}  // namespace attend::train
