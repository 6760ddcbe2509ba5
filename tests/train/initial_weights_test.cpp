// Runs that begin with the weights of another run.
#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/training_run.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "train/run_record.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

std::string repeated(const std::string& text) {
  std::string all;
  for (int i = 0; i < 40; ++i) all += text;
  return all;
}

class InitialWeightsTest : public testing::Test {
 protected:
  InitialWeightsTest() {
    text_ = write("text.txt", repeated("the fox and the hen sat. "));

    table_ = write("table.csv", "text,label\n" + repeated("the fox,one\nthe hen,two\n"));
    other_table_ = write("other.csv", "text,label\n" + repeated("the fox,one\nthe hen,three\n"));
  }

  std::string write(const std::string& name, const std::string& content) const {
    replace_file(directory_ / name, content);
    return (directory_ / name).string();
  }

  /// Trains a run in the directory `name`.
  void train(const std::string& name, const Recipe& recipe) const {
    auto run = make_training_run(directory_ / name, recipe, {.mode = RunMode::begin});
    run.finish(run.train());
  }

  /// Returns the recipe of a small language model of `text_`, or of a classifier of `table_`.
  Recipe recipe_of(const std::string& task) const {
    auto recipe = small_recipe(task, 8);
    recipe.text = {task == "text" ? text_ : table_};
    recipe.max_seq_len() = 16;
    return recipe;
  }

  /// Returns a recipe for a short run that begins with the weights of the run `name`.
  Recipe tuned(const std::string& name, const std::string& task) const {
    auto recipe = fine_tuning_recipe(RunDirectory::open(directory_ / name).recipe(), task);
    recipe.training = small_recipe(task, 6).training;
    return recipe;
  }

  TrainingRun begin(const Recipe& recipe, const std::string& init_from) const {
    return make_training_run(directory_ / "run", recipe,
                             {.mode = RunMode::overwrite, .init_from = directory_ / init_from});
  }

  auto beginning(const Recipe& recipe, const std::string& init_from) const {
    return [this, recipe, init_from] { begin(recipe, init_from); };
  }

  NamedTensors best_weights(const std::string& name) const {
    return RunDirectory::open(directory_ / name).state_dict(Weights::best);
  }

  static NamedTensors weights_of(TrainingRun& run) {
    return state_dict(module_of(run.setup().model));
  }

  TemporaryDirectory directory_;
  std::string text_;
  std::string table_;
  std::string other_table_;
};

TEST_F(InitialWeightsTest, AreTheBestWeightsOfTheRun) {
  train("base", small_recipe("copy"));
  auto recipe = tuned("base", "copy");
  recipe.stack().dropout = 0.3;
  recipe.training.seed = 7;
  auto run = begin(recipe, "base");
  const auto expected = best_weights("base");
  EXPECT_TRUE(equal_tensors(weights_of(run), expected));
  const auto& initial = run.setup().initial_weights.value();
  EXPECT_EQ(initial.directory, directory_ / "base");
  EXPECT_EQ(initial.num_tensors, static_cast<int64_t>(expected.size()));
  EXPECT_THAT(initial.keys.missing_keys, IsEmpty());
  EXPECT_THAT(initial.keys.unexpected_keys, IsEmpty());
  EXPECT_THAT(initial.changed_options, ElementsAre(Names("dropout")));
  run.finish(run.train());
  EXPECT_FALSE(equal_tensors(best_weights("run"), expected));
}

TEST_F(InitialWeightsTest, AreRecorded) {
  train("base", small_recipe("copy"));
  const auto record_of = [&](const char* name) {
    return read_record(directory_ / name / RunFiles::data);
  };
  EXPECT_EQ(record_of("base").init_from, "");
  auto run = begin(tuned("base", "reverse"), "base");
  EXPECT_EQ(record_of("run").init_from, record_of("base").run_id);
  EXPECT_EQ(run.setup().initial_weights->run_id, record_of("base").run_id);
  EXPECT_NE(record_of("run").run_id, record_of("base").run_id);
}

TEST_F(InitialWeightsTest, RecipeHasTheModelAndTheTokenizerOfTheSource) {
  auto source = recipe_of("text");
  source.data.tokenizer = TokenizerKind::byte;
  source.data.val_fraction = 0.2;
  source.stack().positions = PositionScheme::alibi;
  std::get<LanguageModelConfig>(source.model).tie_embeddings = false;

  auto expected = find_task("text").defaults;
  expected.text = source.text;
  expected.data = source.data;
  expected.model = source.model;
  EXPECT_EQ(to_toml(fine_tuning_recipe(source, "text")), to_toml(expected));

  expected = find_task("labelled-lines").defaults;
  expected.data.tokenizer = TokenizerKind::byte;
  expected.stack() = source.stack();
  expected.max_seq_len() = 16;
  EXPECT_EQ(to_toml(fine_tuning_recipe(source, "labelled-lines")), to_toml(expected));
  EXPECT_THAT([&] { fine_tuning_recipe(source, "texts"); }, throws_naming<InputError>("texts"));
}

TEST_F(InitialWeightsTest, OtherTextUsesTheTokenizerOfTheRun) {
  train("base", recipe_of("text"));
  auto recipe = tuned("base", "text");
  recipe.text = {write("few.txt", repeated("the hen "))};
  {
    auto run = begin(recipe, "base");
    EXPECT_TRUE(equal_tensors(weights_of(run), best_weights("base")));
    run.finish(run.train());
  }
  const auto tokenizer = RunDirectory::open(directory_ / "base").load().tokenizer;
  const auto run = RunDirectory::open(directory_ / "run").load();
  EXPECT_EQ(run.tokenizer->files(), tokenizer->files());
  EXPECT_EQ(run.make_task()->tokenizer().files(), tokenizer->files());

  recipe.text = {write("more.txt", repeated("the fox and the zebra "))};
  EXPECT_THAT(beginning(recipe, "base"), throws_naming<InputError>(recipe.text.front(), "'z'"));
}

TEST_F(InitialWeightsTest, ClassifierTakesTheBlocksOfALanguageModel) {
  for (const bool tied : {true, false}) {
    auto base = recipe_of("text");
    std::get<LanguageModelConfig>(base.model).tie_embeddings = tied;
    train(tied ? "tied" : "untied", base);
    const std::string source = tied ? "tied" : "untied";
    auto recipe = tuned(source, "labelled-lines");
    recipe.text = {table_};
    std::get<SequenceClassifierConfig>(recipe.model).pooler = true;
    auto run = begin(recipe, source);

    const auto& initial = *run.setup().initial_weights;
    EXPECT_THAT(initial.keys.missing_keys,
                ElementsAre("head.bias", "head.weight", "pooler.bias", "pooler.weight"));
    EXPECT_EQ(initial.keys.unexpected_keys,
              tied ? std::vector<std::string>{} : std::vector<std::string>{"head.weight"});
    const auto weights = weights_of(run);
    EXPECT_EQ(initial.num_tensors, static_cast<int64_t>(weights.size()) - 4);
    int64_t blocks = 0;
    for (const auto& [name, tensor] : best_weights(source)) {
      if (name == "head.weight") continue;
      const bool is_block = name.starts_with("decoder.");
      blocks += is_block;
      EXPECT_TRUE(tensor.equal(weights.at(is_block ? "en" + name.substr(2) : name))) << name;
    }
    EXPECT_GT(blocks, 0);
    run.finish(run.train());
  }
}

TEST_F(InitialWeightsTest, HeadIsTakenForEqualClasses) {
  train("base", recipe_of("labelled-lines"));
  auto recipe = tuned("base", "labelled-lines");
  EXPECT_TRUE([&] {
    auto run = begin(recipe, "base");
    return equal_tensors(weights_of(run), best_weights("base"));
  }());
  recipe.text = {other_table_};
  auto run = begin(recipe, "base");
  EXPECT_EQ(run.setup().task->classes().size(), 2U);
  EXPECT_THAT(run.setup().initial_weights->keys.missing_keys,
              ElementsAre("head.bias", "head.weight"));
  EXPECT_THAT(run.setup().initial_weights->keys.unexpected_keys,
              ElementsAre("head.bias", "head.weight"));
  EXPECT_FALSE(weights_of(run).at("head.weight").equal(best_weights("base").at("head.weight")));
}

TEST_F(InitialWeightsTest, OtherTextsOfATableNameTheLine) {
  train("base", recipe_of("labelled-lines"));
  auto recipe = tuned("base", "labelled-lines");
  recipe.text = {write("more.csv", "text,label\nthe fox,one\nthe zebra,two\n")};
  EXPECT_THAT(beginning(recipe, "base"),
              throws_naming<InputError>(recipe.text.front() + ":3", "'z'"));
}

TEST_F(InitialWeightsTest, OtherSizesAreRefused) {
  auto base = small_recipe("copy", 4);
  base.stack().num_layers = 2;
  train("base", base);
  const auto with = [&](auto change) {
    auto recipe = tuned("base", "copy");
    change(recipe.stack());
    return beginning(recipe, "base");
  };
  const auto path = (directory_ / "base").string();
  EXPECT_THAT(with([](auto& stack) { stack.embed_dim = 32; }),
              throws_naming<InputError>(path, "(16)", "(32)", "embed_dim", "'16'", "'32'"));
  EXPECT_THAT(with([](auto& stack) { stack.num_layers = 3; }),
              throws_naming<InputError>(path, "decoder.blocks.2", "num_layers", "'2'", "'3'"));
  EXPECT_THAT(with([](auto& stack) { stack.num_layers = 1; }),
              throws_naming<InputError>(path, "decoder.blocks.1", "num_layers", "'2'", "'1'"));
  EXPECT_THAT(with([](auto& stack) { stack.bias = false; }),
              throws_naming<InputError>(path, "bias", "'on'", "'off'"));
  EXPECT_FALSE(fs::exists(directory_ / "run"));
}

TEST_F(InitialWeightsTest, OtherTokenizersAreRefused) {
  train("text", recipe_of("text"));
  train("copy", small_recipe("copy", 4));
  const auto path = [&](const char* name) { return (directory_ / name).string(); };
  auto recipe = tuned("text", "text");
  recipe.data.tokenizer = TokenizerKind::byte;
  EXPECT_THAT(beginning(recipe, "text"),
              throws_naming<InputError>(path("text"), "tokenizer", "'character'", "'byte'"));
  EXPECT_THAT(beginning(recipe_of("text"), "copy"),
              throws_naming<InputError>(path("copy"), "'copy'", "'text'"));
  EXPECT_THAT(beginning(tuned("copy", "addition"), "copy"),
              throws_naming<InputError>(path("copy"), "'copy'", "28", "'addition'"));
  EXPECT_THAT(
      beginning(small_recipe("translation"), "copy"),
      throws_naming<InputError>(path("copy"), "language_model", "'translation'", "seq2seq"));
}

TEST_F(InitialWeightsTest, DamagedWeightsAreRefused) {
  train("base", small_recipe("copy", 4));
  const auto recipe = tuned("base", "copy");
  const auto file = directory_ / "base" / RunFiles::model;
  const auto bytes = read_bytes(file);
  auto damaged = bytes;
  damaged.back() ^= 1;
  replace_file(file, damaged);
  EXPECT_THAT(beginning(recipe, "base"), throws_naming<InputError>(file.string()));
  train("other", small_recipe("copy", 4));
  fs::copy_file(directory_ / "other" / RunFiles::model, file, fs::copy_options::overwrite_existing);
  EXPECT_THAT(beginning(recipe, "base"), throws_naming<InputError>(file.string()));
  fs::remove(file);
  EXPECT_THAT(beginning(recipe, "base"), throws_naming<InputError>(file.string()));
  EXPECT_FALSE(fs::exists(directory_ / "run"));
  replace_file(file, bytes);
  EXPECT_NO_THROW(beginning(recipe, "base")());
}

TEST_F(InitialWeightsTest, AreUsedWhenTheRunIsResumedBeforeItsFirstStep) {
  train("base", small_recipe("copy"));
  const auto recipe = tuned("base", "copy");
  const auto expected = best_weights("base");
  {
    auto whole = make_training_run(directory_ / "whole", recipe,
                                   {.mode = RunMode::begin, .init_from = directory_ / "base"});
    whole.finish(whole.train());
  }
  begin(recipe, "base");
  fs::remove_all(directory_ / "base");
  auto resumed = make_training_run(directory_ / "run", recipe, {.mode = RunMode::resume});
  EXPECT_EQ(resumed.state().step, 0);
  EXPECT_FALSE(resumed.setup().initial_weights.has_value());
  EXPECT_TRUE(equal_tensors(weights_of(resumed), expected));
  resumed.finish(resumed.train());
  EXPECT_TRUE(equal_tensors(best_weights("run"), best_weights("whole")));
}

TEST_F(InitialWeightsTest, AreNeverReplacedByRandomWeights) {
  train("base", small_recipe("copy"));
  const auto recipe = tuned("base", "copy");
  begin(recipe, "base");
  fs::remove_all(directory_ / "run" / RunFiles::checkpoints);
  const auto run_id = read_record(directory_ / "base" / RunFiles::data).run_id;
  EXPECT_THAT([&] { make_training_run(directory_ / "run", recipe, {.mode = RunMode::resume}); },
              throws_naming<InputError>((directory_ / "run").string(), run_id));
  auto run = make_training_run(directory_ / "run", recipe, {.init_from = directory_ / "base"});
  EXPECT_TRUE(equal_tensors(weights_of(run), best_weights("base")));
}

TEST_F(InitialWeightsTest, BeginOrResumeRequiresTheSameSource) {
  train("base", small_recipe("copy"));
  train("other", small_recipe("copy"));
  const auto recipe = tuned("base", "copy");
  const auto begin_or_resume = [&](const fs::path& init_from) {
    return make_training_run(directory_ / "run", recipe, {.init_from = init_from});
  };
  {
    auto run = begin_or_resume(directory_ / "base");
    EXPECT_TRUE(run.setup().initial_weights.has_value());
    run.finish(run.train());
  }
  EXPECT_TRUE(begin_or_resume(directory_ / "base").is_finished());
  const auto run_id = [&](const char* name) {
    return read_record(directory_ / name / RunFiles::data).run_id;
  };
  EXPECT_THAT([&] { begin_or_resume(directory_ / "other"); },
              throws_naming<InputError>("init_from", run_id("base"), run_id("other")));
  EXPECT_THAT([&] { begin_or_resume({}); },
              throws_naming<InputError>("init_from", run_id("base"), "''"));
  EXPECT_THAT([&] { begin_or_resume(directory_ / "none"); },
              throws_naming<InputError>((directory_ / "none").string()));
}

TEST_F(InitialWeightsTest, ARunMayReplaceItsSource) {
  train("run", small_recipe("copy"));
  const auto expected = best_weights("run");
  auto run = begin(tuned("run", "copy"), "run");
  EXPECT_TRUE(equal_tensors(weights_of(run), expected));
  run.finish(run.train());
  EXPECT_FALSE(fs::exists(RunDirectory::replaced(directory_ / "run")));
}

}  // namespace
}  // namespace attend::train
