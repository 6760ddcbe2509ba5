#include "attend/train/recipe_run.h"

#include "attend/io/tokenizers.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/task_objective.h"
#include "train/run_files.h"
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

}  // namespace

TrainingSetup make_training_setup(const Recipe& recipe,
                                  std::shared_ptr<const Tokenizer> tokenizer) {
  check_recipe(recipe);
  const auto device = resolve_device(recipe.training.device);
  auto task = make_task(recipe, std::move(tokenizer));
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
  module_of(model).to(device);
  return {device, std::move(task), std::move(model)};
}

RecipeRun::RecipeRun(const Recipe& recipe, const TrainingSetup& setup, TrainingRun run)
    : recipe_(recipe), task_(setup.task), model_(setup.model), run_(std::move(run)) {}

RecipeRun RecipeRun::begin(const std::filesystem::path& directory, const Recipe& recipe,
                           bool overwrite) {
  check_can_create(directory, overwrite);  // first, since making the task may take long
  const auto setup = make_training_setup(recipe);
  return {recipe, setup,
          TrainingRun::begin(directory, run_content(recipe, *setup.task),
                             objective_of(recipe, setup), recipe.training, {}, overwrite)};
}

RecipeRun RecipeRun::open(const std::filesystem::path& directory, const Recipe& recipe) {
  RunDirectory::open(directory);  // throws if the directory is not a run
  check_values(directory, fixed_values(recipe));
  const auto setup = make_training_setup(recipe, load_tokenizer(directory));
  return {recipe, setup,
          TrainingRun::open(directory, run_content(recipe, *setup.task),
                            objective_of(recipe, setup), recipe.training, {})};
}

RecipeRun RecipeRun::resume(const std::filesystem::path& directory, const Recipe& recipe) {
  auto run = open(directory, recipe);
  run.run_.check_is_unfinished();
  return run;
}

RecipeRun RecipeRun::begin_or_resume(const std::filesystem::path& directory, const Recipe& recipe) {
  return RunDirectory::exists(directory) ? open(directory, recipe) : begin(directory, recipe);
}

TrainResult RecipeRun::finish(const TrainResult& result,
                              const std::function<void()>& write_results) {
  return run_.finish(recipe_.task, result, [&] {
    write_embeddings(directory().path(), token_embedding_weight(model_),
                     token_names(task_->tokenizer()));
    if (write_results) write_results();
  });
}

}  // namespace attend::train
