#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/task_objective.h"
#include "attend/train/tensorboard_log.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

std::vector<std::string> token_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
  return names;
}

/// Checks the config, sets the number of threads, and moves the module to the device.
torch::Device prepare(Objective& objective, const TrainingConfig& config) {
  check_training_config(config);
  set_num_threads(config.threads);
  const auto device = resolve_device(config.device);
  objective.module().to(device);
  return device;
}

}  // namespace

TrainingRun::TrainingRun(RunDirectory directory, std::shared_ptr<Objective> objective,
                         const TrainingConfig& config, torch::Device device, Schedule schedule)
    : directory_(std::move(directory)),
      objective_(std::move(objective)),
      config_(config),
      device_(device),
      trainer_(std::make_unique<Trainer>(objective_, config, std::move(schedule))) {}

TrainingRun TrainingRun::begin(const std::filesystem::path& directory,
                               std::shared_ptr<Objective> objective, const TrainingConfig& config,
                               const TrainingRunOptions& options) {
  const auto device = prepare(*objective, config);
  const auto content = run_content(config, options.values);
  return {RunDirectory::create(directory, content, options.overwrite), std::move(objective), config,
          device, options.schedule};
}

TrainingRun TrainingRun::resume(const std::filesystem::path& directory,
                                std::shared_ptr<Objective> objective, const TrainingConfig& config,
                                const TrainingRunOptions& options) {
  const auto device = prepare(*objective, config);
  const auto content = run_content(config, options.values);
  TrainingRun run(RunDirectory::resume(directory, content), std::move(objective), config, device,
                  options.schedule);
  run.resume_from_checkpoint(content.recipe);
  return run;
}

TrainingRun TrainingRun::begin_or_resume(const std::filesystem::path& directory,
                                         std::shared_ptr<Objective> objective,
                                         const TrainingConfig& config,
                                         const TrainingRunOptions& options) {
  const auto& start = RunDirectory::exists(directory) ? resume : begin;
  return start(directory, std::move(objective), config, options);
}

void TrainingRun::resume_from_checkpoint(const std::string& recipe) {
  if (const auto found = directory_.latest_checkpoint()) {
    check_is_unfinished(found->checkpoint.trainer_state);
    trainer_->restore(found->checkpoint);
    resumed_state_ = found->checkpoint.trainer_state;
    damaged_ = found->damaged;
  }
  directory_.save_recipe(recipe);
}

/// A run that was killed between its last step and `finish` is unfinished: resuming finishes it.
void TrainingRun::check_is_unfinished(const TrainerState& state) const {
  const bool finished = directory_.is_finished(state);
  const auto path = directory_.path().string();
  if (state.step > config_.max_steps ||
      (state.step == config_.max_steps && (finished || !state.best))) {
    throw InputError(
        fmt::format("{}: already trained for {}/{} steps; pass a larger max_steps to continue",
                    path, state.step, config_.max_steps));
  }
  if (finished && config_.patience > 0 &&
      state.evaluations_without_improvement >= config_.patience) {
    throw InputError(fmt::format(
        "{}: stopped early at step {} after {} evaluations without improvement; pass a larger "
        "patience to continue",
        path, state.step, state.evaluations_without_improvement));
  }
}

TrainResult TrainingRun::train(const std::vector<Observer*>& observers,
                               const std::function<bool()>& stop_requested) {
  // In the background, so that a slow disk does not slow down training.
  const auto step = resumed_state_.step;
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory_.file(RunFiles::metrics), step),
       std::make_shared<TensorBoardLog>(directory_.file(RunFiles::tensorboard), step)});
  RunCheckpointSink checkpoint_sink(directory_.path());
  std::vector<Observer*> all{&files};
  all.insert(all.end(), observers.begin(), observers.end());
  return trainer_->run(
      {.observers = all, .checkpoint_sink = &checkpoint_sink, .stop_requested = stop_requested});
}

void TrainingRun::load_best_weights() {
  auto& module = objective_->module();
  directory_.load_weights(module);
  module.to(torch::kCPU);
  module.eval();
}

void TrainingRun::write_summary(const std::string& task, const TrainResult& result) {
  directory_.finish(task, objective_->module(), result);
}

void TrainingRun::finish(const TrainResult& result) {
  load_best_weights();
  write_summary("", result);
}

TrainingSetup make_training_setup(const Recipe& recipe) {
  set_num_threads(recipe.training.threads);
  const auto device = resolve_device(recipe.training.device);
  auto task = make_task(recipe);
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {device, std::move(task), std::move(model)};
}

RecipeRun::RecipeRun(RunDirectory directory, const Recipe& recipe, const TrainingSetup& setup)
    : recipe_(recipe),
      task_(setup.task),
      model_(setup.model),
      run_(std::move(directory), std::make_shared<TaskObjective>(model_, task_, recipe.training),
           recipe.training, setup.device) {}

RecipeRun RecipeRun::begin(const std::filesystem::path& directory, const Recipe& recipe,
                           bool overwrite) {
  const auto setup = make_training_setup(recipe);
  return {RunDirectory::create(directory, run_content(recipe, *setup.task), overwrite), recipe,
          setup};
}

RecipeRun RecipeRun::resume(const std::filesystem::path& directory, const Recipe& recipe) {
  const auto setup = make_training_setup(recipe);
  const auto content = run_content(recipe, *setup.task);
  RecipeRun run(RunDirectory::resume(directory, content), recipe, setup);
  run.run_.resume_from_checkpoint(content.recipe);
  return run;
}

RecipeRun RecipeRun::begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe) {
  return RunDirectory::exists(directory) ? resume(directory, recipe) : begin(directory, recipe);
}

TrainResult RecipeRun::train(const std::vector<Observer*>& observers,
                             const std::function<bool()>& stop_requested) {
  return run_.train(observers, stop_requested);
}

void RecipeRun::finish(const TrainResult& result) {
  run_.load_best_weights();
  write_embeddings(directory().path(), token_embedding_weight(model_),
                   token_names(task_->tokenizer()));
  run_.write_summary(recipe_.task, result);
}

}  // namespace attend::train
