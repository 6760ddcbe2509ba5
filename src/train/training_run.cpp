#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/background_checkpoint_sink.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/task_objective.h"
#include "attend/train/tensorboard_log.h"
#include "train/run_content.h"
#include "train/run_files.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

std::vector<std::string> token_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
  return names;
}

/// Checks the config, sets the number of threads, and moves the module to the device.
torch::Device prepare(const std::shared_ptr<Objective>& objective, const TrainingConfig& config) {
  TORCH_CHECK_VALUE(objective != nullptr, "TrainingRun requires an objective, found null");
  check_training_config(config);
  set_num_threads(config.threads);
  const auto device = resolve_device(config.device);
  objective->module().to(device);
  return device;
}

/// True if nothing is left to train. Returns false for a run that was killed between its last step
/// and `finish`, so that resuming calls `finish`.
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
  // In the background, so that a slow disk does not slow down training.
  const auto step = trainer_->state().step;
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory_.file(RunFiles::metrics), step),
       std::make_shared<TensorBoardLog>(directory_.file(RunFiles::tensorboard), step)});
  BackgroundCheckpointSink checkpoint_sink(std::make_shared<RunCheckpointSink>(directory_.path()));
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

TrainingSetup make_training_setup(const Recipe& recipe,
                                  std::shared_ptr<const Tokenizer> tokenizer) {
  set_num_threads(recipe.training.threads);
  const auto device = resolve_device(recipe.training.device);
  auto task = make_task(recipe, std::move(tokenizer));
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
  check_can_create(directory, overwrite);  // first, since making the task may take long
  const auto setup = make_training_setup(recipe);
  return {RunDirectory::create(directory, run_content(recipe, *setup.task), overwrite), recipe,
          setup};
}

RecipeRun RecipeRun::open(const std::filesystem::path& directory, const Recipe& recipe) {
  RunDirectory::open(directory);  // throws if it is not a run
  check_values(directory, fixed_values(recipe));
  const bool subwords = recipe.data.tokenizer == TokenizerKind::subword;
  const auto setup = make_training_setup(recipe, subwords ? load_tokenizer(directory) : nullptr);
  const auto content = run_content(recipe, *setup.task);
  RecipeRun run(RunDirectory::resume(directory, content), recipe, setup);
  run.run_.restore_checkpoint(content.recipe);
  return run;
}

RecipeRun RecipeRun::resume(const std::filesystem::path& directory, const Recipe& recipe) {
  auto run = open(directory, recipe);
  run.run_.check_is_unfinished();
  return run;
}

RecipeRun RecipeRun::begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe) {
  return RunDirectory::exists(directory) ? open(directory, recipe) : begin(directory, recipe);
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
