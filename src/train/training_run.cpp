#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/tensorboard_log.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

std::vector<std::string> token_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
  return names;
}

}  // namespace

TrainingSetup make_training_setup(const Recipe& recipe) {
  set_num_threads(recipe.training.threads);
  const auto device = resolve_device(recipe.training.device);
  auto task = make_task(recipe);
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {device, std::move(task), std::move(model)};
}

TrainingRun::TrainingRun(std::filesystem::path directory, const Recipe& recipe)
    : directory_(std::move(directory)),
      recipe_(recipe),
      prepared_(make_training_setup(recipe)),
      trainer_(std::make_unique<Trainer>(prepared_.model, task(), recipe.training)) {}

TrainingRun TrainingRun::begin(const std::filesystem::path& directory, const Recipe& recipe,
                               bool overwrite) {
  TrainingRun run(directory, recipe);
  run.lock_ = create_run(directory, recipe, run.task(), overwrite);
  return run;
}

TrainingRun TrainingRun::resume(const std::filesystem::path& directory, const Recipe& recipe) {
  TrainingRun run(directory, recipe);
  run.lock_ = reopen_run(directory, recipe, run.task());
  if (const auto found = latest_checkpoint(directory)) run.restore(*found);
  keep_recipe(directory, recipe);
  return run;
}

void TrainingRun::restore(const LoadedCheckpoint& found) {
  check_is_open(found.checkpoint.trainer_state);
  trainer_->restore(found.checkpoint);
  begun_ = found.checkpoint.trainer_state;
  damaged_ = found.damaged;
}

/// A run that has done its last step, but was ended before it was finished, is open: it is to be
/// finished.
void TrainingRun::check_is_open(const TrainerState& standing) const {
  const auto& training = recipe_.training;
  const bool finished = is_finished(directory_, standing);
  if (standing.step > training.max_steps ||
      (standing.step == training.max_steps && (finished || !standing.best))) {
    throw InputError(fmt::format("{} has done {} steps of {}: raise steps to go on",
                                 directory_.string(), standing.step, training.max_steps));
  }
  if (finished && training.patience > 0 && standing.evaluations_without_gain >= training.patience) {
    throw InputError(
        fmt::format("{} was ended by its patience after step {}: raise patience to go on",
                    directory_.string(), standing.step));
  }
}

TrainResult TrainingRun::train(const std::vector<Observer*>& observers,
                               const std::function<bool()>& stop_requested) {
  // On a thread of their own, so that a slow disk does not hold up training.
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory_ / RunFiles::metrics, begun_.step),
       std::make_shared<TensorBoardLog>(directory_ / RunFiles::tensorboard, begun_.step)});
  RunCheckpointSink keeper(directory_);
  std::vector<Observer*> all{&files};
  all.insert(all.end(), observers.begin(), observers.end());
  return trainer_->run(
      {.observers = all, .checkpoint_sink = &keeper, .stop_requested = stop_requested});
}

void TrainingRun::finish(const TrainResult& outcome) {
  prepared_.model = load_run(directory_).model;
  write_embeddings(directory_, token_embedding_weight(model()), token_names(task().tokenizer()));
  finish_run(directory_, recipe_, model(), outcome);
}

}  // namespace attend::train
