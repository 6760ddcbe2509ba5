#pragma once

#include "attend/train/run_directory.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "train/run_record.h"

#include <gtest/gtest.h>

#include <optional>

namespace attend::train {

/// A new run of the task `senses` in a temporary directory.
class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() { create(small_recipe("senses"), false); }

  void create(const Recipe& recipe, bool overwrite) {
    recipe_ = recipe;
    task_ = make_task(recipe_);
    run_.reset();
    run_.emplace(RunDirectory::create(path_, new_record(recipe_, *task_), overwrite));
  }

  /// Overwrites the run with one that trains on a text file with the content `text`.
  void create_with_text(const std::string& text) {
    replace_file(directory_ / "text", text);
    auto recipe = small_recipe("text");
    recipe.text = {(directory_ / "text").string()};
    create(recipe, true);
  }

  void train_for(int64_t steps) {
    SmallRun run(recipe_);
    auto directory = RunDirectory::open(path_);
    int64_t done = 0;
    result_ = run.trainer.run(
        {.checkpoint_sink = &directory, .stop_requested = [&] { return ++done == steps; }});
    checkpoint_ = run.trainer.checkpoint();
    model_ = run.model;
  }

  void finish() { RunDirectory::open(path_).finish_run(module_of(*model_), result_); }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "deep" / "run";
  Recipe recipe_;
  std::unique_ptr<Task> task_;
  std::optional<RunDirectory> run_;  // locks the directory
  TrainResult result_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Model> model_;
};

}  // namespace attend::train
