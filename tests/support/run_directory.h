#pragma once

#include "attend/train/run.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"

#include <gtest/gtest.h>

#include <optional>

namespace attend::train {

/// Fixture with a new run of the task `senses` in a temporary directory.
class RunDirectory : public testing::Test {
 protected:
  RunDirectory() { begin(small_recipe("senses"), false); }

  void begin(const Recipe& recipe, bool overwrite) {
    recipe_ = recipe;
    task_ = make_task(recipe_);
    lock_.reset();
    lock_ = create_run(path_, recipe_, *task_, overwrite);
  }

  /// Replaces it by a run that trains on the file `text`.
  void begin_with_text(const std::string& text) {
    replace_file(directory_ / "text", text);
    auto recipe = small_recipe("text");
    recipe.text = (directory_ / "text").string();
    begin(recipe, true);
  }

  void train_for(int64_t steps) {
    SmallRun run(recipe_);
    RunCheckpointSink keeper(path_);
    int64_t done = 0;
    outcome_ = run.trainer.run(
        {.checkpoint_sink = &keeper, .stop_requested = [&] { return ++done == steps; }});
    snapshot_ = run.trainer.snapshot();
    model_ = run.model;
  }

  void finish() { finish_run(path_, recipe_, *model_, outcome_); }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "deep" / "run";
  Recipe recipe_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<RunLock> lock_;
  TrainResult outcome_;
  std::optional<Checkpoint> snapshot_;
  std::optional<Model> model_;
};

}  // namespace attend::train
