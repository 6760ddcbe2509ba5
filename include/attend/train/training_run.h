#pragma once

#include "attend/train/run.h"

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attend::train {

/// What training a recipe takes.
struct TrainingSetup {
  torch::Device device;
  std::unique_ptr<Task> task;
  Model model;  ///< with fresh weights, on the device
};

/// From here on LibTorch uses as many threads as the recipe says. Throws InputError for a device
/// that is not there, and as `make_task` does.
TrainingSetup make_training_setup(const Recipe& recipe);

/// A run in a directory, from its start, or from its latest checkpoint, to its end: what is learned
/// survives a crash, a kill and a full disk. Other processes are kept from the directory as long as
/// it lives.
///
///     auto run = TrainingRun::begin("runs/sort", find_task("sort").defaults);
///     const auto outcome = run.train();
///     run.finish(outcome);                       // and then load_run("runs/sort")
///     ...
///     auto again = TrainingRun::resume("runs/sort", recipe_of_run("runs/sort"));
class TrainingRun {
 public:
  /// Makes the directory; see `create_run` for what it throws and what becomes of a run that is
  /// there.
  static TrainingRun begin(const std::filesystem::path& directory, const Recipe& recipe,
                           bool overwrite = false);
  /// Goes on with the run of a directory, by a recipe that may have other values of training. A run
  /// that was ended before its first checkpoint begins again. Throws InputError as `reopen_run`
  /// does, and if there is nothing left to do: then it says what to change.
  static TrainingRun resume(const std::filesystem::path& directory, const Recipe& recipe);

  /// Trains, and writes metrics, TensorBoard's events, checkpoints and the best weights as it goes.
  /// `observers` hear what the files hear, on the calling thread. Throws as `Trainer::run` does.
  TrainResult train(const std::vector<Observer*>& observers = {},
                    const std::function<bool()>& stop_requested = {});

  /// Writes the embeddings and the summary of a run that was trained to its end, and lets go of the
  /// run that it replaced. The model then has the weights of the lowest loss, on the CPU.
  void finish(const TrainResult& outcome);

  const std::filesystem::path& directory() const { return directory_; }
  const Recipe& recipe() const { return recipe_; }
  const Task& task() const { return *prepared_.task; }
  Model& model() { return prepared_.model; }
  torch::Device device() const { return prepared_.device; }
  /// Where it goes on from.
  const TrainerState& resumed_state() const { return begun_; }
  /// Checkpoints that were passed over since they are damaged, and in what.
  const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  TrainingRun(std::filesystem::path directory, const Recipe& recipe);

  void restore(const LoadedCheckpoint& found);
  void check_is_open(const TrainerState& standing) const;

  std::filesystem::path directory_;
  Recipe recipe_;
  TrainingSetup prepared_;
  std::unique_ptr<Trainer> trainer_;
  std::shared_ptr<RunLock> lock_;
  TrainerState begun_;
  std::vector<std::string> damaged_;
};

}  // namespace attend::train
