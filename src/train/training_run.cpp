#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/train/background_checkpoint_sink.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/metrics_log.h"
#include "attend/train/recipe.h"
#include "attend/train/tensorboard_log.h"
#include "train/run_content.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

/// Checks the arguments, moves the module to the config's device, and returns this device.
torch::Device prepare(const std::shared_ptr<Objective>& objective, const TrainingConfig& config) {
  TORCH_CHECK_VALUE(objective != nullptr, "TrainingRun requires an objective, found null");
  check_training_config(config);
  const auto device = resolve_device(config.device);
  objective->module().to(device);
  return device;
}

/// True if the run has reached `max_steps` or has run out of patience, and has a summary. The
/// summary is missing if the process was killed between the last step and `finish`. In this case,
/// returns false, so that the user can resume the run and call `finish`. The exception is a run
/// that has no best weights at `max_steps`: it needs no summary, because `finish` cannot write one.
bool is_finished(const RunDirectory& directory, const TrainerState& state,
                 const TrainingConfig& config) {
  const bool has_summary = directory.is_finished(state);
  const bool out_of_patience =
      config.patience > 0 && state.evaluations_without_improvement >= config.patience;
  return (state.step == config.max_steps && (has_summary || !state.best)) ||
         (has_summary && out_of_patience);
}

[[noreturn]] void throw_already_trained(const RunDirectory& directory, int64_t step,
                                        int64_t max_steps) {
  throw InputError(
      fmt::format("{}: already trained for {}/{} steps; pass a larger max_steps to continue",
                  directory.path().string(), step, max_steps));
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
                               const TrainingRunOptions& options, bool overwrite) {
  const auto device = prepare(objective, config);
  const auto content = run_content(config, options.values);
  return {RunDirectory::create(directory, content, overwrite), std::move(objective), config, device,
          options.schedule};
}

TrainingRun TrainingRun::open(const std::filesystem::path& directory,
                              std::shared_ptr<Objective> objective, const TrainingConfig& config,
                              const TrainingRunOptions& options) {
  const auto device = prepare(objective, config);
  const auto content = run_content(config, options.values);
  TrainingRun run(RunDirectory::resume(directory, content), std::move(objective), config, device,
                  options.schedule);
  run.restore_checkpoint(content.recipe);
  return run;
}

TrainingRun TrainingRun::resume(const std::filesystem::path& directory,
                                std::shared_ptr<Objective> objective, const TrainingConfig& config,
                                const TrainingRunOptions& options) {
  auto run = open(directory, std::move(objective), config, options);
  run.check_is_unfinished();
  return run;
}

TrainingRun TrainingRun::begin_or_resume(const std::filesystem::path& directory,
                                         std::shared_ptr<Objective> objective,
                                         const TrainingConfig& config,
                                         const TrainingRunOptions& options) {
  return RunDirectory::exists(directory) ? open(directory, std::move(objective), config, options)
                                         : begin(directory, std::move(objective), config, options);
}

void TrainingRun::restore_checkpoint(const std::string& recipe) {
  if (const auto found = directory_.latest_checkpoint()) {
    resumed_state_ = found->checkpoint.trainer_state;
    damaged_ = found->damaged;
    if (resumed_state_.step > config_.max_steps)
      throw_already_trained(directory_, resumed_state_.step, config_.max_steps);
    is_finished_ = train::is_finished(directory_, resumed_state_, config_);
    trainer_->restore(found->checkpoint);
  }
  if (!is_finished_) directory_.save_recipe(recipe);
}

void TrainingRun::check_is_unfinished() const {
  if (!is_finished_) return;
  const auto& state = resumed_state_;
  if (state.step == config_.max_steps)
    throw_already_trained(directory_, state.step, config_.max_steps);
  throw InputError(fmt::format(
      "{}: stopped early at step {} after {} evaluations without improvement; pass a larger "
      "patience to continue",
      directory_.path().string(), state.step, state.evaluations_without_improvement));
}

TrainResult TrainingRun::train(const std::vector<Observer*>& observers,
                               const std::function<bool()>& stop_requested) {
  if (is_finished_) return trainer_->run({.observers = observers});
  // Background threads write the files, so that a slow disk does not slow down training.
  const auto step = trainer_->state().step;
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory_.file(RunFiles::metrics), step),
       std::make_shared<TensorBoardLog>(directory_.file(RunFiles::tensorboard), step)});
  BackgroundCheckpointSink checkpoint_sink(directory_.checkpoint_sink());
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

}  // namespace attend::train
