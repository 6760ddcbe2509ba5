#include "attend/train/recipe_run.h"

#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/task_objective.h"
#include "train/process_calls.h"
#include "train/run_files.h"
#include "train/run_history.h"
#include "train/run_record.h"

namespace attend::train {
namespace {

std::vector<std::string> token_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
  return names;
}

std::shared_ptr<Objective> objective_of(const Recipe& recipe, const TrainingSetup& setup) {
  return std::make_shared<TaskObjective>(setup.model, setup.task, recipe.training);
}

/// Throws InputError if `run` began with other weights than those of the run in `init_from`, which
/// may be empty.
void check_init_from(const RunDirectory& run, const std::filesystem::path& init_from) {
  using Values = std::map<std::string, std::string>;
  const auto now = init_from.empty() ? "" : RunDirectory::open(init_from).record().run_id;
  throw_if_different(run.path(), differences_of(Values{{kInitFrom, run.record().init_from}},
                                                Values{{kInitFrom, now}}));
}

/// Returns what to do with the directory: with `RunMode::begin_or_resume`, only if there is a run
/// to resume, else one of the other modes. Returns the same in all processes.
RunMode mode_for(const std::filesystem::path& directory, const RecipeRunOptions& options) {
  if (options.mode != RunMode::begin_or_resume) return options.mode;
  bool exists = false;
  bool has_begun = false;
  run_on_rank_0(*options.processes, [&] {
    exists = RunDirectory::exists(directory);
    if (!exists) return;
    const auto run = RunDirectory::open(directory);
    check_init_from(run, options.init_from);
    // A process may have been killed after it created the run and before it saved the initial
    // weights.
    has_begun = options.init_from.empty() || run.available_weights();
  });
  if (any_process(*options.processes, has_begun)) return RunMode::begin_or_resume;
  return any_process(*options.processes, exists) ? RunMode::overwrite : RunMode::begin;
}

/// Makes the setup of a run to resume. Throws InputError if values or data of the run differ from
/// `recipe`, before the data are read where possible.
TrainingSetup setup_to_resume(const std::filesystem::path& directory, const Recipe& recipe,
                              const RecipeRunOptions& options) {
  using Values = std::map<std::string, std::string>;
  run_on_rank_0(*options.processes, [&] {
    const auto run = RunDirectory::open(directory);
    throw_if_different(directory, differences_of(run.record().fixed, fixed_values(recipe)));
    run.check_files();
    check_texts_exist(directory, recipe);
  });
  const auto run = RunDirectory::open(directory);
  auto setup = make_training_setup(recipe, load_run_tokenizer(directory), options.task_maker);
  const auto& expected = run.record().data_checksum;
  const auto found = setup.task->data_checksum();
  check_equal(*options.processes, {{"data with the checksum", found}});
  const auto what = changed_data(recipe, expected, found) + ": checksum of the data";
  throw_if_different(directory, differences_of(Values{{what, expected}}, Values{{what, found}}));
  return setup;
}

/// Makes the setup of a new run.
TrainingSetup setup_to_begin(const std::filesystem::path& directory, const Recipe& recipe,
                             const RecipeRunOptions& options, bool overwrite) {
  // First, since making the task may take long.
  run_on_rank_0(*options.processes, [&] { check_can_create(directory, overwrite); });
  return make_training_setup(recipe, options.init_from, options.task_maker);
}

RunContent content_of(const Recipe& recipe, const TrainingSetup& setup) {
  auto content = run_content(recipe, *setup.task);
  if (setup.initial_weights) content.record.init_from = setup.initial_weights->run_id;
  return content;
}

}  // namespace

TrainingSetup make_training_setup(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer,
                                  const TaskMaker& task_maker) {
  check_recipe(recipe);
  const auto device = resolve_device(recipe.training.device);
  auto task = task_maker(recipe, std::move(tokenizer));
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {device, std::move(task), std::move(model)};
}

Recipe fine_tuning_recipe(const Recipe& source, const std::string& task) {
  const auto& info = find_task(task);
  auto recipe = info.defaults;
  if (task == source.task) {
    recipe.text = source.text;
    recipe.data = source.data;
  } else if (info.reads_file()) {
    recipe.data.tokenizer = source.data.tokenizer;
    recipe.data.vocab_size = source.data.vocab_size;
    recipe.data.unknown = source.data.unknown;
  }
  if (recipe.model.index() == source.model.index()) {
    recipe.model = source.model;
  } else {
    recipe.stack() = source.stack();
    recipe.max_seq_len() = source.max_seq_len();
  }
  return recipe;
}

/// Throws InputError in all processes if they begin or resume in other ways, since each way needs
/// other calls of all processes.
void check_equal_start(const RecipeRunOptions& options) {
  check_equal(*options.processes,
              {{"the mode", std::string(to_string(options.mode))},
               {"initial weights", options.init_from.empty() ? "random" : "of a run"}});
}

/// Known before the run directory is opened.
struct RecipeRun::Start {
  Start(const std::filesystem::path& directory, const Recipe& recipe,
        const RecipeRunOptions& options)
      : mode((check_equal_start(options), mode_for(directory, options))),
        setup(mode == RunMode::begin || mode == RunMode::overwrite
                  ? setup_to_begin(directory, recipe, options, mode == RunMode::overwrite)
                  : setup_to_resume(directory, recipe, options)) {}

  RunMode mode;
  TrainingSetup setup;
};

RecipeRun::RecipeRun(const std::filesystem::path& directory, const Recipe& recipe,
                     const RecipeRunOptions& options)
    : RecipeRun(directory, recipe, options, Start(directory, recipe, options)) {}

RecipeRun::RecipeRun(const std::filesystem::path& directory, const Recipe& recipe,
                     const RecipeRunOptions& options, const Start& start)
    : recipe_(recipe),
      task_(start.setup.task),
      model_(start.setup.model),
      initial_weights_(start.setup.initial_weights),
      run_(directory, content_of(recipe, start.setup), objective_of(recipe, start.setup),
           recipe.training,
           {.mode = start.mode,
            .processes = options.processes,
            .shard_optimizer = options.shard_optimizer}) {}

TrainResult RecipeRun::train(const TrainerHooks& hooks) {
  if (is_finished() || processes().rank() > 0) return run_.train(hooks);
  RunHistory history(directory(), model_, *task_, recipe_.training.seed, state());
  if (state().step == 0) history.record(0);
  auto all = hooks;
  all.observers.insert(all.observers.begin(), &history);
  return run_.train(all);
}

TrainResult RecipeRun::finish(const TrainResult& result, const std::function<void()>& write_results,
                              const BatchCallback& on_batch) {
  const auto write = [&] {
    write_embeddings(directory().path(), token_embedding_weight(model_),
                     token_names(task_->tokenizer()));
    if (write_results) write_results();
  };
  return run_.finish(result, write, on_batch);
}

}  // namespace attend::train
