#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/background_checkpoint_sink.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/metrics_log.h"
#include "attend/train/recipe.h"
#include "attend/train/tensorboard_log.h"
#include "io/utf8.h"
#include "train/autocast_for.h"
#include "train/process_calls.h"
#include "train/run_record.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

/// Checks the arguments, before the run directory is created, and moves the module to the config's
/// device.
void prepare(const std::shared_ptr<Objective>& objective, const TrainingConfig& config,
             const TrainingRunOptions& options) {
  TORCH_CHECK_VALUE(objective != nullptr, "TrainingRun requires an objective, found null");
  check_training_config(config);
  check_processes(options.processes, config);
  objective->module().to(resolve_device(config.device));
}

/// Throws InputError if the initial weights of the run were those of another run, which only a
/// checkpoint contains.
void check_began_with_random_weights(const RunDirectory& directory) {
  const auto init_from = read_record(directory.file(RunFiles::data)).init_from;
  if (init_from.empty()) return;
  throw InputError(fmt::format(
      "{}: no checkpoint has been saved, which would contain the initial weights (the weights of "
      "the run with the run_id '{}'); overwrite the run with a new one",
      directory.path().string(), printable(init_from)));
}

/// Returns the result of `open` in rank 0, and nothing in the other processes.
std::optional<RunDirectory> directory_in_rank_0(Processes& processes,
                                                const std::function<RunDirectory()>& open) {
  std::optional<RunDirectory> directory;
  in_rank_0(processes, [&] { directory.emplace(open()); });
  return directory;
}

[[noreturn]] void throw_already_trained(const RunDirectory& directory, int64_t step,
                                        int64_t max_steps) {
  throw InputError(
      fmt::format("{}: already trained for {}/{} steps; pass a larger max_steps to continue",
                  directory.path().string(), step, max_steps));
}

}  // namespace

TrainingRun::TrainingRun(std::optional<RunDirectory> directory,
                         std::shared_ptr<Objective> objective, const TrainingConfig& config,
                         const TrainingRunOptions& options)
    : directory_(std::move(directory)),
      objective_(std::move(objective)),
      config_(config),
      processes_(options.processes),
      device_(objective_->module().parameters().front().device()),
      trainer_(std::make_unique<Trainer>(objective_, config, options.schedule, options.optimizer,
                                         processes_)) {}

const RunDirectory& TrainingRun::directory() const {
  TORCH_CHECK_VALUE(directory_, "directory: found rank ", processes_->rank(),
                    ", expected 0, the process that has the run directory");
  return *directory_;
}

TrainingRun TrainingRun::begin(const std::filesystem::path& directory, const RunContent& content,
                               std::shared_ptr<Objective> objective, const TrainingConfig& config,
                               const TrainingRunOptions& options, bool overwrite) {
  prepare(objective, config, options);
  auto created = directory_in_rank_0(
      *options.processes, [&] { return RunDirectory::create(directory, content, overwrite); });
  return {std::move(created), std::move(objective), config, options};
}

TrainingRun TrainingRun::open(const std::filesystem::path& directory, const RunContent& content,
                              std::shared_ptr<Objective> objective, const TrainingConfig& config,
                              const TrainingRunOptions& options) {
  prepare(objective, config, options);
  auto& processes = *options.processes;
  TrainingRun run(
      directory_in_rank_0(processes, [&] { return RunDirectory::resume(directory, content); }),
      std::move(objective), config, options);
  run.is_resumed_ = true;
  in_rank_0(processes, [&] {
    run.restore_checkpoint();
    if (!run.is_finished()) run.directory().save_recipe(content.recipe);
  });
  // The checkpoint has states for each process.
  if (processes.rank() > 0) {
    const auto found = RunDirectory::open(directory).latest_checkpoint();
    if (found) run.trainer_->restore(found->checkpoint);
  }
  run.is_finished_ = any_process(processes, run.is_finished_);
  run.resumed_state_ = broadcast(processes, run.resumed_state_);
  return run;
}

TrainingRun TrainingRun::begin(const std::filesystem::path& directory,
                               std::shared_ptr<Objective> objective, const TrainingConfig& config,
                               const TrainingRunOptions& options, bool overwrite) {
  return begin(directory, run_content(config, options), std::move(objective), config, options,
               overwrite);
}

TrainingRun TrainingRun::resume(const std::filesystem::path& directory,
                                std::shared_ptr<Objective> objective, const TrainingConfig& config,
                                const TrainingRunOptions& options) {
  auto run = open(directory, run_content(config, options), std::move(objective), config, options);
  run.check_is_unfinished();
  return run;
}

TrainingRun TrainingRun::begin_or_resume(const std::filesystem::path& directory,
                                         std::shared_ptr<Objective> objective,
                                         const TrainingConfig& config,
                                         const TrainingRunOptions& options) {
  const auto content = run_content(config, options);
  auto& processes = *options.processes;
  const bool exists =
      any_process(processes, processes.rank() == 0 && RunDirectory::exists(directory));
  return exists ? open(directory, content, std::move(objective), config, options)
                : begin(directory, content, std::move(objective), config, options, false);
}

void TrainingRun::restore_checkpoint() {
  const auto found = directory().latest_checkpoint();
  if (!found) {
    check_began_with_random_weights(directory());
    return;
  }
  resumed_state_ = found->checkpoint.trainer_state;
  damaged_ = found->damaged;
  if (resumed_state_.step > config_.max_steps)
    throw_already_trained(directory(), resumed_state_.step, config_.max_steps);
  is_finished_ = directory().is_finished(resumed_state_, config_);
  trainer_->restore(found->checkpoint);
}

void TrainingRun::save_checkpoint() const {
  directory().checkpoint_sink()->save(trainer_->checkpoint());
}

void TrainingRun::check_is_unfinished() const {
  in_rank_0(*processes_, [this] {
    if (!is_finished_) return;
    const auto& state = resumed_state_;
    if (state.step == config_.max_steps)
      throw_already_trained(directory(), state.step, config_.max_steps);
    throw InputError(fmt::format(
        "{}: stopped early at step {} after {} evaluations without improvement; pass a larger "
        "patience to continue",
        directory().path().string(), state.step, state.evaluations_without_improvement));
  });
}

TrainResult TrainingRun::train(const std::vector<Observer*>& observers,
                               const std::function<bool()>& stop_requested,
                               const std::function<bool()>& stop_evaluation) {
  if (is_finished_) return trainer_->run({.observers = observers});
  if (processes_->rank() > 0) return trainer_->run({.stop_requested = stop_requested});
  // Background threads write the files, so that a slow disk does not slow down training.
  const auto step = trainer_->state().step;
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory().file(RunFiles::metrics), step),
       std::make_shared<TensorBoardLog>(directory().file(RunFiles::tensorboard), step)});
  BackgroundCheckpointSink checkpoint_sink(directory().checkpoint_sink());
  std::vector<Observer*> all{&files};
  all.insert(all.end(), observers.begin(), observers.end());
  const auto result = trainer_->run({.observers = all,
                                     .checkpoint_sink = &checkpoint_sink,
                                     .stop_requested = stop_requested,
                                     .stop_evaluation = stop_evaluation});
  directory().check_in_place("the state of the run");
  return result;
}

Evaluation TrainingRun::evaluate(const BatchCallback& on_batch) {
  const torch::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), autocast_for(config_.precision, device_.type()));
  return objective_->evaluate({.on_batch = on_batch});
}

TrainResult TrainingRun::finish(const std::string& task, const TrainResult& result,
                                const std::function<void()>& write_results,
                                const BatchCallback& on_batch) {
  auto final = result;
  auto& module = objective_->module();
  const auto check_in_place = [&] { directory().check_in_place("the results"); };
  in_rank_0(*processes_, [&] {
    check_in_place();
    directory().load_weights(module);
    module.eval();
    if (final.state.best.value().is_partial) final.state.best = evaluate(on_batch);
    module.to(torch::kCPU);
    check_in_place();
    if (write_results) write_results();
    directory().finish(task, module, final);
  });
  if (processes_->size() == 1) return final;
  module.to(torch::kCPU);
  module.eval();
  load_state_dict(module, broadcast(*processes_, state_dict(module)));
  final.state = broadcast(*processes_, final.state);
  return final;
}

}  // namespace attend::train
