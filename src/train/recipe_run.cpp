#include "attend/train/recipe_run.h"

#include "attend/io/tokenizers.h"
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

/// Throws InputError if the run in `directory` began with other weights than those of the run in
/// `init_from`, which may be empty.
void check_init_from(const std::filesystem::path& directory,
                     const std::filesystem::path& init_from) {
  using Values = std::map<std::string, std::string>;
  const auto record_of = [](const std::filesystem::path& path) {
    return read_record(RunDirectory::open(path).file(RunFiles::data));
  };
  const Values run{{kInitFrom, record_of(directory).init_from}};
  const Values now{{kInitFrom, init_from.empty() ? "" : record_of(init_from).run_id}};
  throw_if_different(directory, differences_of(run, now));
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

RecipeRun::RecipeRun(const Recipe& recipe, const TrainingSetup& setup, TrainingRun run)
    : recipe_(recipe),
      task_(setup.task),
      model_(setup.model),
      initial_weights_(setup.initial_weights),
      run_(std::move(run)) {}

RecipeRun RecipeRun::begin(const std::filesystem::path& directory, const Recipe& recipe,
                           bool overwrite, const RecipeRunOptions& options) {
  auto& processes = *options.processes;
  // First, since making the task may take long.
  in_rank_0(processes, [&] { check_can_create(directory, overwrite); });
  const auto setup = make_training_setup(recipe, options.init_from, options.task_maker);
  auto content = run_content(recipe, *setup.task);
  if (setup.initial_weights) content.record.init_from = setup.initial_weights->run_id;
  auto run = TrainingRun::begin(directory, content, objective_of(recipe, setup), recipe.training,
                                {.processes = options.processes}, overwrite);
  in_rank_0(processes, [&] {
    if (setup.initial_weights) run.save_checkpoint();  // resuming does not need the other run
  });
  return {recipe, setup, std::move(run)};
}

RecipeRun RecipeRun::open(const std::filesystem::path& directory, const Recipe& recipe,
                          const RecipeRunOptions& options) {
  in_rank_0(*options.processes, [&] {
    RunDirectory::open(directory);  // throws if the directory is not a run
    check_values(directory, fixed_values(recipe));
    check_texts_exist(directory, recipe);
  });
  const auto setup = make_training_setup(recipe, load_tokenizer(directory), options.task_maker);
  check_data(directory, recipe, setup.task->data_checksum());
  return {
      recipe, setup,
      TrainingRun::open(directory, run_content(recipe, *setup.task), objective_of(recipe, setup),
                        recipe.training, {.processes = options.processes})};
}

RecipeRun RecipeRun::resume(const std::filesystem::path& directory, const Recipe& recipe,
                            const RecipeRunOptions& options) {
  auto run = open(directory, recipe, options);
  run.run_.check_is_unfinished();
  return run;
}

RecipeRun RecipeRun::begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe,
                                     const RecipeRunOptions& options) {
  bool exists = false;
  bool has_begun = false;
  in_rank_0(*options.processes, [&] {
    exists = RunDirectory::exists(directory);
    if (exists) check_init_from(directory, options.init_from);
    // A process may have been killed after it created the run and before it saved the initial
    // weights.
    has_begun = exists && (options.init_from.empty() || has_weights(directory));
  });
  return any_process(*options.processes, has_begun)
             ? open(directory, recipe, options)
             : begin(directory, recipe, /*overwrite=*/exists, options);
}

TrainResult RecipeRun::train(const std::vector<Observer*>& observers,
                             const std::function<bool()>& stop_requested,
                             const std::function<bool()>& stop_evaluation) {
  if (is_finished() || run_.processes_->rank() > 0)
    return run_.train(observers, stop_requested, stop_evaluation);
  const auto& state = run_.trainer_->state();
  RunHistory history(directory(), model_, *task_, recipe_.training.seed, state);
  if (state.step == 0) history.record(0);
  std::vector<Observer*> all{&history};
  all.insert(all.end(), observers.begin(), observers.end());
  return run_.train(all, stop_requested, stop_evaluation);
}

TrainResult RecipeRun::finish(const TrainResult& result, const std::function<void()>& write_results,
                              const BatchCallback& on_batch) {
  const auto write = [&] {
    write_embeddings(directory().path(), token_embedding_weight(model_),
                     token_names(task_->tokenizer()));
    if (write_results) write_results();
  };
  return run_.finish(recipe_.task, result, write, on_batch);
}

}  // namespace attend::train
