#pragma once

#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"

#include <memory>
#include <optional>

namespace attend::train {

using NamedTensors = std::map<std::string, torch::Tensor>;

/// Returns a recipe for `task` that trains for `steps` steps. Its model is small and has dropout.
Recipe small_recipe(const std::string& task, int64_t steps = 10);

/// A task, a new model for it, and a trainer.
struct SmallRun {
  explicit SmallRun(const Recipe& recipe);

  NamedTensors weights() const;  ///< copies of the weights

  std::shared_ptr<const Task> task;
  Model model;
  Trainer trainer;
};

/// Returns true if both have the same names and equal tensors.
bool equal_tensors(const NamedTensors& one, const NamedTensors& other);

/// Records all calls.
struct Recorder : Observer, CheckpointSink {
  void on_progress(const Progress& report) override { progress.push_back(report); }
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;
  void on_finish() override { ++finished; }
  void save_best(const NamedTensors& weights) override;
  void save(const Checkpoint& checkpoint) override {
    saved.push_back(checkpoint.trainer_state.step);
  }
  std::string latest_path() const override { return saved.empty() ? "" : "latest/path"; }

  std::vector<int64_t> reported_steps() const;

  std::vector<Progress> progress;
  std::vector<int64_t> evaluated;
  std::vector<Evaluation> evaluations;
  std::vector<NamedTensors> best;
  std::vector<int64_t> saved;
  int finished = 0;
};

/// Contains the last checkpoint.
struct LastCheckpoint : CheckpointSink {
  void save_best(const NamedTensors& /*weights*/) override {}
  void save(const Checkpoint& saved) override { checkpoint = saved; }
  std::string latest_path() const override { return ""; }
  std::optional<Checkpoint> checkpoint = {};
};

}  // namespace attend::train
