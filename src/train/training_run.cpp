#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/nn/lora.h"
#include "attend/train/background.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/initial_model.h"
#include "attend/train/metrics_log.h"
#include "attend/train/task_objective.h"
#include "train/autocast_for.h"
#include "train/checksum.h"
#include "train/processes.h"
#include "train/run_files.h"
#include "train/run_history.h"
#include "train/run_record.h"
#include "train/source_model.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

/// Throws InputError in all processes if they begin or resume in other ways, since each way needs
/// other files of the run.
void check_equal_mode(const TrainingRunOptions& options) {
  check_equal(*options.processes,
              {{"the mode", std::string(to_string(options.mode))},
               {"initial weights", options.init_from.empty() ? "random" : "of a run"}});
}

/// Throws InputError in all processes if they train with other recipes, data or options.
void check_equal_content(const TrainingRunOptions& options, const RunRecord& record,
                         const TrainingConfig& config, Objective& objective) {
  if (options.processes->world_size() == 1) return;
  uint32_t files = 0;  // such as a tokenizer
  for (const auto& [name, text] : record.texts) {
    if (name != RunFiles::recipe) files = crc32c(name + '\0' + text + '\0', files);
  }
  for (const auto& name : record.classes) files = crc32c(name + '\0', files);
  torch::manual_seed(static_cast<uint64_t>(config.seed));  // for random transforms of the samples
  check_equal(*options.processes,
              {{"a recipe with", record.texts.at(RunFiles::recipe)},
               {"initial weights of the run", record.init_from},
               {"shard_optimizer", options.shard_optimizer ? "true" : "false"},
               {"data with the checksum", record.data_checksum},
               {"a device of the type",
                c10::DeviceTypeName(objective.module().parameters().front().device().type())},
               {"tokenizer and classes with the checksum", checksum_text(files)},
               {"samples (`Objective::data_samples`) with the checksum",
                checksum_of(objective.data_samples())}});
}

/// Throws InputError if the initial weights of the run were not random.
void check_began_with_random_weights(const RunDirectory& directory) {
  const auto& init_from = directory.record().init_from;
  if (init_from.empty()) return;
  throw InputError(fmt::format(
      "{}: no checkpoint has been saved, which would contain the initial weights (the weights of "
      "the run with the run_id '{}'); overwrite the run with a new one",
      directory.path().string(), printable(init_from)));
}

/// Throws InputError if `run` began with other weights than those of the run in `init_from`, which
/// may be empty.
void check_init_from(const RunDirectory& run, const std::filesystem::path& init_from) {
  using Values = std::map<std::string, std::string>;
  const auto now = init_from.empty() ? "" : InitialModel(init_from).id();
  throw_if_different(run.path(), differences_of(Values{{kInitFrom, run.record().init_from}},
                                                Values{{kInitFrom, now}}));
}

/// Throws InputError if the run in `directory` is `init_from`, its base model, the base model of
/// that one, and so on: a run with adapters that replaces it would have no base model.
void check_is_no_base(const std::filesystem::path& directory,
                      const std::filesystem::path& init_from) {
  auto base = init_from;
  for (int i = 0; i <= kMaxBases && RunDirectory::exists(base); ++i) {
    if (std::error_code error; std::filesystem::equivalent(base, directory, error)) {
      throw InputError(fmt::format(
          "{}: the new run has adapters of the weights of {}, and needs the run that it would "
          "replace ({}): choose another directory",
          directory.string(), init_from.string(), base.string()));
    }
    const auto next = RunDirectory::open(base).record().base;
    base = next ? next->path : "";
  }
}

/// Returns what to do with the directory of a recipe: begin, overwrite or resume. Checks the
/// directory as far as possible without the data, since reading them may take long.
RunMode checked_mode(const std::filesystem::path& directory, const Recipe& recipe,
                     const TrainingRunOptions& options) {
  auto mode = options.mode;
  if (mode == RunMode::begin_or_resume) {
    mode = RunMode::begin;
    if (RunDirectory::exists(directory)) {
      const auto run = RunDirectory::open(directory);
      check_init_from(run, options.init_from);
      // A process may have been killed after it created the run and before it saved the initial
      // weights.
      const bool has_begun = options.init_from.empty() || run.available_weights();
      mode = has_begun ? RunMode::resume : RunMode::overwrite;
    }
  }
  if (mode == RunMode::resume) {
    const auto run = RunDirectory::open(directory);
    throw_if_different(directory, differences_of(run.record().fixed, fixed_values(recipe)));
    run.check_files();
    run.check_texts(recipe);
  } else {
    RunDirectory::check_can_create(directory, mode == RunMode::overwrite);
    if (recipe.lora.rank > 0) check_is_no_base(directory, options.init_from);
  }
  return mode;
}

/// Checks the arguments, before the run directory is created, and moves the module of an objective
/// of your own to the config's device.
std::shared_ptr<Objective> prepared(std::shared_ptr<Objective> objective,
                                    const TrainingConfig& config,
                                    const TrainingRunOptions& options) {
  TORCH_CHECK_VALUE(objective != nullptr, "TrainingRun requires an objective, found null");
  check_processes(options.processes, config);
  TORCH_CHECK_VALUE(options.init_from.empty(),
                    "TrainingRun: found `init_from`, expected none: load the initial weights into "
                    "the module");
  check_equal_mode(options);
  objective->module().to(resolve_device(config.device));
  return objective;
}

/// Returns `resume` in all processes if `mode` is `resume` in one of them, else `mode`.
RunMode mode_of_all(RunMode mode, Processes& processes) {
  return any_process(processes, mode == RunMode::resume) ? RunMode::resume : mode;
}

/// Returns what to do with the directory of an objective of your own.
RunMode mode_of_all(const std::filesystem::path& directory, const TrainingRunOptions& options) {
  const bool resumes = options.mode == RunMode::begin_or_resume && options.processes->rank() == 0 &&
                       RunDirectory::exists(directory);
  return mode_of_all(resumes ? RunMode::resume : options.mode, *options.processes);
}

/// Returns the setup of a run that is resumed, whose weights a checkpoint contains: all of them, or
/// all but those of its base model.
TrainingSetup resumed_setup(const std::filesystem::path& directory, const Recipe& recipe,
                            const TaskMaker& task_maker) {
  const auto base = RunDirectory::open(directory).record().base;
  if (!base) return make_training_setup(recipe, load_run_tokenizer(directory), task_maker);
  const auto source = with_source(directory.string(), [&] { return load_base(*base); });
  return make_training_setup(recipe, source, task_maker);
}

RunRecord record_of(const TrainingSetup& setup) {
  auto record = new_record(setup.recipe, *setup.task);
  if (const auto& initial = setup.initial_weights) {
    record.init_from = initial->run_id;
    if (setup.recipe.lora.rank > 0) {
      record.base =
          BaseModel{.path = std::filesystem::absolute(initial->directory).lexically_normal(),
                    .checksum = initial->checksum};
    }
  }
  return record;
}

std::vector<std::string> token_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
  return names;
}

}  // namespace

TrainingRun make_training_run(const std::filesystem::path& directory, const Recipe& recipe,
                              const TrainingRunOptions& options) {
  TORCH_CHECK_VALUE(
      options.optimizer == nullptr && options.values.empty(),
      "make_training_run: found `optimizer` or `values`, expected neither: the recipe "
      "describes them");
  check_processes(options.processes, recipe.training);
  check_equal_mode(options);
  auto mode = RunMode::begin;  // in the other processes
  run_on_rank_0(*options.processes, [&] { mode = checked_mode(directory, recipe, options); });
  mode = mode_of_all(mode, *options.processes);
  const auto setup = std::make_shared<TrainingSetup>(
      mode == RunMode::resume ? resumed_setup(directory, recipe, options.task_maker)
                              : make_training_setup(recipe, options.init_from, options.task_maker));
  auto objective = std::make_shared<TaskObjective>(setup->model, setup->task, recipe.training);
  return {directory, record_of(*setup), std::move(objective), mode, recipe.training, options,
          setup};
}

TrainingRun::TrainingRun(const std::filesystem::path& directory,
                         std::shared_ptr<Objective> objective, const TrainingConfig& config,
                         const TrainingRunOptions& options)
    : TrainingRun{directory,
                  new_record(config, options),
                  prepared(std::move(objective), config, options),  // before the next argument
                  mode_of_all(directory, options),
                  config,
                  options,
                  nullptr} {}

TrainingRun::TrainingRun(const std::filesystem::path& directory, const RunRecord& record,
                         std::shared_ptr<Objective> objective, RunMode mode,
                         const TrainingConfig& config, const TrainingRunOptions& options,
                         std::shared_ptr<TrainingSetup> setup)
    : config_(config),
      processes_(options.processes),
      objective_(std::move(objective)),
      setup_(std::move(setup)),
      device_(objective_->module().parameters().front().device()),
      is_resumed_(mode == RunMode::resume) {
  check_equal_content(options, record, config, *objective_);
  // Before the directory is created: checks its arguments.
  trainer_ = std::make_unique<Trainer>(objective_, config, options.schedule, options.optimizer,
                                       processes_, options.shard_optimizer);
  run_on_rank_0(*processes_, [&] {
    if (is_resumed_) {
      directory_ = std::make_shared<RunDirectory>(RunDirectory::resume(directory, record));
      restore_checkpoint();
      if (!is_finished_) directory_->save_recipe(record.texts.at(RunFiles::recipe));
    } else {
      directory_ = std::make_shared<RunDirectory>(
          RunDirectory::create(directory, record, mode == RunMode::overwrite));
      if (!record.init_from.empty()) directory_->save(trainer_->checkpoint());
    }
  });
  is_finished_ = any_process(*processes_, is_finished_);
}

const RunDirectory& TrainingRun::directory() const {
  TORCH_CHECK_VALUE(directory_, "directory: found rank ", processes_->rank(),
                    ", expected 0, the process that has the run directory");
  return *directory_;
}

TrainingSetup& TrainingRun::setup() {
  TORCH_CHECK_VALUE(setup_ != nullptr,
                    "setup: found an objective, expected a run of make_training_run");
  return *setup_;
}

void TrainingRun::restore_checkpoint() {
  const auto found = directory().checkpoints().load_latest();
  if (!found) return check_began_with_random_weights(directory());
  const auto& state = found->trainer_state;
  if (state.step > config_.max_steps) {
    throw InputError(
        fmt::format("{}: already trained for {}/{} steps; pass a larger max_steps to continue",
                    directory().path().string(), state.step, config_.max_steps));
  }
  damaged_ = found->damaged;
  checkpoint_world_size_ = world_size_of(*found);
  is_finished_ = directory().is_finished(state, config_);
  trainer_->restore(*found);
}

TrainResult TrainingRun::train(const TrainerHooks& hooks) {
  TORCH_CHECK_VALUE(
      hooks.checkpoint_sink == nullptr,
      "TrainingRun saves checkpoints in its directory, found another checkpoint_sink");
  if (is_finished_ || processes_->rank() > 0) return trainer_->run(hooks);
  // Background threads write the files, so that a slow disk does not slow down training.
  const auto step = state().step;
  BackgroundObserver files(
      {std::make_shared<MetricsLog>(directory().file(RunFiles::metrics), step),
       std::make_shared<TensorBoardLog>(directory().file(RunFiles::tensorboard), step)});
  BackgroundCheckpointSink checkpoint_sink(directory_);
  auto all = hooks;
  std::optional<RunHistory> history;
  if (setup_) {
    history.emplace(directory(), setup_->model, *setup_->task, config_.seed, state());
    if (step == 0) history->record(0);
    all.observers.insert(all.observers.begin(), &*history);
  }
  all.observers.insert(all.observers.begin(), &files);
  all.checkpoint_sink = &checkpoint_sink;
  const auto result = trainer_->run(all);
  directory().check_in_place("the state of the run");
  return result;
}

Evaluation TrainingRun::evaluate(const BatchCallback& on_batch) {
  const torch::NoGradGuard no_grad;
  const AutocastGuard autocast(device_.type(), autocast_for(config_.precision, device_.type()));
  const LoraWeightsGuard adapters(objective_->module());
  return objective_->evaluate({.on_batch = on_batch, .processes = processes_});
}

TrainResult TrainingRun::finish(const TrainResult& result,
                                const std::function<void()>& write_results,
                                const BatchCallback& on_batch) {
  auto final = result;
  auto& module = objective_->module();
  const auto check_in_place = [&] { directory().check_in_place("the results"); };
  run_on_rank_0(*processes_, [&] {
    check_in_place();
    directory().load_weights(module);
  });
  if (processes_->world_size() > 1)
    load_state_dict(module, broadcast(*processes_, state_dict(module)));
  module.eval();
  if (final.state.best.value().is_partial) final.state.best = evaluate(on_batch);
  module.to(torch::kCPU);
  run_on_rank_0(*processes_, [&] {
    check_in_place();
    if (setup_) {
      write_embeddings(directory().path(), token_embedding_weight(setup_->model),
                       token_names(setup_->task->tokenizer()));
    }
    if (write_results) write_results();
    directory().finish_run(module, final);
  });
  if (processes_->world_size() > 1) final.state = broadcast(*processes_, final.state);
  return final;
}

}  // namespace attend::train
