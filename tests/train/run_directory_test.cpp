#include "attend/train/run_directory.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/seed.h"
#include "support/throws.h"
#include "train/checksum.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

TEST_F(RunDirectoryTest, LoadsWhatWasSaved) {
  train_for(4);
  auto run = RunDirectory::open(path_).load();
  EXPECT_FALSE(module_of(run.model).is_training());
  EXPECT_EQ(run.tokenizer->files(), task_->tokenizer().files());
  EXPECT_EQ(to_toml(run.recipe), to_toml(recipe_));
  EXPECT_EQ(evaluate(run.model, *run.make_task()).loss, result_.state.best->loss);
}

TEST_F(RunDirectoryTest, LoadKeepsTheRandomNumberGenerator) {
  train_for(4);
  torch::manual_seed(123);
  const auto expected = torch::rand({3});
  torch::manual_seed(123);
  RunDirectory::open(path_).load();
  EXPECT_TRUE(torch::rand({3}).equal(expected));
}

TEST_F(RunDirectoryTest, LoadsBestOrLastWeights) {
  train_for(6);  // the last evaluation is after 4 steps
  const auto of = [](const auto& run) { return state_dict(module_of(run.model)); };
  EXPECT_TRUE(
      equal_tensors(of(RunDirectory::open(path_).load(Weights::last)), checkpoint_->weights));
  EXPECT_FALSE(equal_tensors(of(RunDirectory::open(path_).load()), checkpoint_->weights));
}

TEST_F(RunDirectoryTest, LoadsTheClassNamesOfAClassifier) {
  create(small_recipe("balanced-brackets"), true);
  train_for(4);
  const auto run = RunDirectory::open(path_).load();
  EXPECT_THAT(run.classes, testing::ElementsAre("balanced", "unbalanced"));
  EXPECT_NO_THROW(run.make_task());
}

TEST_F(RunDirectoryTest, LoadWithoutEvaluationSaysHowToContinue) {
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("no best weights: the run has no evaluation with a finite "
                                 "validation loss yet; resume it (attend train --resume"));
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); },
              throws<InputError>("no checkpoint has been saved yet"));
  EXPECT_FALSE(RunDirectory::open(path_).checkpoints().load_latest().has_value());
}

TEST_F(RunDirectoryTest, AModelOfManyLayersIsNotMadeForFewWeights) {
  auto recipe = recipe_;
  recipe.stack().num_layers = 1000;
  recipe.stack().num_experts = 1000;
  const auto path = directory_ / "many-layers";
  RunDirectory::create(path, new_record(recipe, *task_)).save_best({{"weight", torch::ones({3})}});
  EXPECT_THAT([&] { RunDirectory::open(path).load(); },
              throws_naming<InputError>((path / RunFiles::model).string(), "found 1", "1000000"));
}

TEST_F(RunDirectoryTest, DetectsDamagedWeights) {
  train_for(4);
  const auto file = path_ / RunFiles::model;
  auto bytes = read_bytes(file);
  bytes.back() ^= 1;
  replace_file(file, bytes);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("model.safetensors: damaged"));
}

TEST_F(RunDirectoryTest, DetectsAChangedText) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  create_with_text(text);
  train_for(4);
  const auto run = RunDirectory::open(path_).load();
  EXPECT_NO_THROW(run.make_task());
  replace_file(directory_ / "text", std::string(text.rbegin(), text.rend()));
  EXPECT_THAT([&] { run.make_task(); }, throws<InputError>("text: changed since training"));
  std::replace(text.begin(), text.end(), 'w', 'W');
  replace_file(directory_ / "text", text);
  EXPECT_THAT([&] { run.make_task(); },
              throws_naming<InputError>((directory_ / "text").string(), "'W'"));
}

TEST_F(RunDirectoryTest, LoadNamesTheMissingFile) {
  train_for(4);
  finish();
  for (const auto* name : {RunFiles::model, kTokenizerFile, RunFiles::data}) {
    fs::remove(path_ / name);
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
                throws<InputError>((path_ / name).c_str()));
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("no such file"));
  }
}

TEST_F(RunDirectoryTest, RequiresARecipe) {
  constexpr const char* kNone = "not a run directory: it has no recipe.toml";
  EXPECT_THAT([&] { RunDirectory::open(directory_ / "none").load(); }, throws<InputError>(kNone));
  EXPECT_THAT([&] { RunDirectory::open(path_ / RunFiles::data).recipe(); },
              throws<InputError>(kNone));
  fs::remove(path_ / RunFiles::recipe);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); }, throws<InputError>(kNone));
}

TEST_F(RunDirectoryTest, RequiresTheTextOfARecipe) {
  train_for(4);
  const auto record = RunDirectory::open(path_).record();  // without texts, which are files
  EXPECT_THAT([&] { RunDirectory::create(directory_ / "copy", record); },
              throws<c10::ValueError>("recipe.toml"));
  EXPECT_FALSE(fs::exists(directory_ / "copy"));
  EXPECT_THAT([&] { RunDirectory::resume(path_, record); }, throws<c10::ValueError>("recipe.toml"));
}

TEST_F(RunDirectoryTest, OwnsItsFiles) {
  train_for(4);
  finish();
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    EXPECT_TRUE(RunDirectory::owns(path_, entry.path())) << entry.path();
  }
  EXPECT_TRUE(RunDirectory::owns(path_, path_ / "x" / ".." / RunFiles::data));
  for (const auto& other : {path_ / "x.pt", path_ / "x" / "data.json", path_ / ".." / "data.json",
                            path_, fs::path("data.json")}) {
    EXPECT_FALSE(RunDirectory::owns(path_, other)) << other;
  }
}

TEST_F(RunDirectoryTest, LoadNamesDamagedFiles) {
  train_for(4);
  replace_file(path_ / kTokenizerFile, "{}");
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("tokenizer.json: "));
  replace_file(path_ / kTokenizerFile, task_->tokenizer().files().at(kTokenizerFile));
  for (const auto* damaged :
       {"", "{}", "[]", "{\"checksum\": 3, \"classes\": [], \"fixed\": {}}"}) {
    replace_file(path_ / RunFiles::data, damaged);
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("data.json: "))
        << damaged;
  }
}

TEST_F(RunDirectoryTest, AnyChangeOfDataJsonIsDetected) {
  const auto path = path_ / RunFiles::data;
  const auto whole = read_bytes(path);
  seed_afresh();
  for (int i = 0; i < 200; ++i) {
    auto bytes = whole;
    const auto place = static_cast<std::size_t>(draw(0, static_cast<int64_t>(whole.size()) - 2));
    bytes[place] = static_cast<char>(bytes[place] ^ (1 << draw(0, 7)));
    replace_file(path, bytes);
    EXPECT_THAT([&] { RunDirectory::open(path_).recipe(); },
                throws_naming<InputError>(path.string()))
        << "byte " << place;
  }
  replace_file(path, whole);
  EXPECT_NO_THROW(RunDirectory::open(path_).recipe());
}

TEST_F(RunDirectoryTest, AChangedTokenizerIsRefusedByItsName) {
  train_for(4);
  run_.reset();
  const auto path = path_ / kTokenizerFile;
  auto text = read_bytes(path);
  text.replace(text.find("bank"), 4, "tank");
  replace_file(path, text);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws_naming<InputError>(path.string(), RunFiles::data));
  EXPECT_THAT([&] { RunDirectory::resume(path_, new_record(recipe_, *task_)); },
              throws_naming<InputError>(path.string(), RunFiles::data));
}

TEST_F(RunDirectoryTest, AChangedTrainingOptionInTheRecipeIsRefusedByItsName) {
  train_for(4);
  run_.reset();
  auto other = recipe_;
  other.training.lr *= 2;
  const auto path = path_ / RunFiles::recipe;
  replace_file(path, to_toml(other));
  const auto matches = throws_naming<InputError>(path.string(), RunFiles::data, "--resume");
  EXPECT_THAT([&] { RunDirectory::open(path_).recipe(); }, matches);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); }, matches);
  EXPECT_THAT([&] { RunDirectory::resume(path_, new_record(recipe_, *task_)); }, matches);
  EXPECT_THAT([&] { RunDirectory::open(path_).save_recipe(to_toml(recipe_)); }, matches);
}

TEST_F(RunDirectoryTest, SavingARecipeRenewsItsChecksum) {
  const auto of_lr = [&](double lr) {
    auto recipe = recipe_;
    recipe.training.lr = lr;
    return to_toml(recipe);
  };
  const auto found_lr = [&] { return RunDirectory::open(path_).recipe().training.lr; };
  run_->save_recipe(of_lr(0.25));
  EXPECT_EQ(found_lr(), 0.25);
  // As after a kill between the writes of the two files.
  auto record = read_record(path_ / RunFiles::data);
  EXPECT_EQ(record.next_recipe, "");
  record.next_recipe = checksum_text(crc32c(of_lr(0.5)));
  replace_file(path_ / RunFiles::data, to_json(record));
  EXPECT_EQ(found_lr(), 0.25);
  replace_file(path_ / RunFiles::recipe, of_lr(0.5));
  EXPECT_EQ(found_lr(), 0.5);
  RunDirectory::open(path_).save_recipe(of_lr(0.75));
  EXPECT_EQ(found_lr(), 0.75);
  replace_file(path_ / RunFiles::recipe, of_lr(0.5));
  EXPECT_THAT(found_lr, testing::Throws<InputError>());
}

TEST_F(RunDirectoryTest, NamesTheRunsOfASweep) {
  const auto sweep = directory_ / "sweep";
  EXPECT_EQ(runs_clause(sweep), "");
  for (const char* name : {"lr=0.1", "lr=0.2"})
    RunDirectory::create(sweep / name, new_record(recipe_, *task_));
  EXPECT_THAT([&] { RunDirectory::open(sweep); },
              throws_naming<InputError>(sweep.string(), "sweep", "lr=0.1", "lr=0.2"));
}

TEST_F(RunDirectoryTest, KnowsTheNameOfTheRecipe) {
  auto named = recipe_;
  named.name = "mine";
  create(named, true);
  EXPECT_EQ(RunDirectory::open(path_).recipe().name, "mine");
}

/// A run and its copy, in which a test replaces files.
class OtherRun : public RunDirectoryTest {
 protected:
  OtherRun() {
    train_for(4);
    finish();
    run_.reset();
    other_ = directory_ / "other";
    fs::copy(path_, other_, fs::copy_options::recursive);
    create(recipe_, true);
    train_for(4);
    finish();
    run_.reset();
    run_id_ = read_record(path_ / RunFiles::data).run_id;
    other_id_ = read_record(other_ / RunFiles::data).run_id;
  }

  void replace_by_other(const char* name) {
    fs::remove_all(path_ / name);
    fs::copy(other_ / name, path_ / name, fs::copy_options::recursive);
  }

  void resume() {
    RunDirectory::resume(path_, new_record(recipe_, *task_)).checkpoints().load_latest();
  }

  fs::path other_;
  std::string run_id_;
  std::string other_id_;
};

TEST_F(OtherRun, HasAnotherId) {
  EXPECT_THAT(run_id_, testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_THAT(other_id_, testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(run_id_, other_id_);
}

TEST_F(OtherRun, WeightsAreRefused) {
  replace_by_other(RunFiles::model);
  const auto file = (path_ / RunFiles::model).string();
  const auto matches = throws_naming<InputError>(file, run_id_, other_id_);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, matches);
  EXPECT_THAT([&] { resume(); }, matches);
  EXPECT_NO_THROW(RunDirectory::open(path_).load(Weights::last));
}

TEST_F(OtherRun, CheckpointsAreRefused) {
  replace_by_other(RunFiles::checkpoints);
  const auto folder = (path_ / RunFiles::checkpoints / "step-000000004").string();
  const auto matches = throws_naming<InputError>(folder, run_id_, other_id_);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); }, matches);
  EXPECT_THAT([&] { resume(); }, matches);
  EXPECT_NO_THROW(RunDirectory::open(path_).load());
}

TEST_F(OtherRun, SummaryIsRefused) {
  replace_by_other(RunFiles::summary);
  const auto matches =
      throws_naming<InputError>((path_ / RunFiles::summary).string(), run_id_, other_id_);
  EXPECT_THAT([&] { RunDirectory::open(path_).summary(); }, matches);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, matches);
}

TEST_F(OtherRun, WeightsWithoutAnIdAreRefused) {
  const auto file = path_ / RunFiles::model;
  auto content = load_safetensors(file);
  content.metadata.erase(kRunId);
  save_safetensors(file, content);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws_naming<InputError>(file.string(), run_id_));
}

TEST_F(RunDirectoryTest, LastWeightsOfADamagedCheckpointAreRefused) {
  train_for(4);
  checkpoint_->trainer_state.step = 5;
  RunDirectory::open(path_).save(*checkpoint_);
  const auto checkpoints = path_ / RunFiles::checkpoints;
  const auto file = checkpoints / "step-000000005" / "state.safetensors";
  replace_file(file, "");
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); },
              throws_naming<InputError>(file.string(), (checkpoints / "step-000000004").string()));
  fs::remove_all(checkpoints / "step-000000005");
  EXPECT_NO_THROW(RunDirectory::open(path_).load(Weights::last));
}

TEST_F(RunDirectoryTest, ADamagedSummaryIsRefusedByItsName) {
  train_for(4);
  finish();
  const auto path = path_ / RunFiles::summary;
  auto changed = read_bytes(path);
  changed.replace(changed.find("\"steps\": 4"), 10, "\"steps\": 5");
  for (const auto& damaged :
       {std::string(), std::string("[]"), std::string("{\"threads\": "), changed}) {
    replace_file(path, damaged);
    EXPECT_THAT([&] { RunDirectory::open(path_).summary(); },
                throws_naming<InputError>(path.string()))
        << damaged;
    EXPECT_THAT([&] { RunDirectory::open(path_).is_finished(result_.state, recipe_.training); },
                throws_naming<InputError>(path.string()))
        << damaged;
  }
}

TEST_F(RunDirectoryTest, RecordsItsProvenance) {
  const auto provenance = read_record(path_ / RunFiles::data).provenance;
  EXPECT_THAT(provenance.created, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_THAT(provenance.version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  ASSERT_FALSE(provenance.command.empty());
  EXPECT_EQ(provenance.command[0], "attend_tests");
  EXPECT_THAT(provenance.os, testing::StartsWith("Linux "));
  EXPECT_GE(provenance.num_cpus, 1);
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_THAT(read_bytes(path_ / RunFiles::data),
              testing::Not(testing::HasSubstr(fmt::format("\"{}\"", host.data()))));
}

TEST_F(RunDirectoryTest, LoadThrowsForWeightsOfAnotherModel) {
  train_for(4);
  auto wider = recipe_;
  wider.stack().embed_dim = 32;
  const auto now = new_record(wider, *task_);
  const auto& recipe = now.texts.at(RunFiles::recipe);
  auto record = read_record(path_ / RunFiles::data);
  record.fixed = now.fixed;
  record.files[RunFiles::recipe] = checksum_text(crc32c(recipe));
  replace_file(path_ / RunFiles::data, to_json(record));
  replace_file(path_ / RunFiles::recipe, recipe);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("model.safetensors: the state dict does not match"));
  RunDirectory::open(path_).save(*checkpoint_);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); },
              throws<InputError>("checkpoint/step-000000004: the state dict does not match"));
}

}  // namespace
}  // namespace attend::train
