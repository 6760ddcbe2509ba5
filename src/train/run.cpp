#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/safetensors.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/tokenizers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend::train {

namespace fs = std::filesystem;

LanguageModel make_model(const Recipe& recipe, const Tokenizer& tokenizer) {
  const auto* given = std::get_if<LanguageModelConfig>(&recipe.model);
  if (given == nullptr) {
    throw InputError(fmt::format("the task {} trains a language_model, the recipe names a {}",
                                 recipe.task, model_kind(recipe.model)));
  }
  auto config = *given;
  config.vocab_size = tokenizer.size();
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  return LanguageModel(config);
}

void create_run_directory(const fs::path& directory, const Recipe& recipe, bool overwrite) {
  std::error_code error;
  if (fs::exists(directory, error) && !fs::is_empty(directory, error)) {
    if (!overwrite) {
      throw InputError(
          fmt::format("{} exists; choose another --out, or give --overwrite", directory.string()));
    }
    if (!fs::is_regular_file(directory / RunFiles::recipe)) {
      throw InputError(fmt::format("{} holds no {}, so it is not a run: it is left alone",
                                   directory.string(), RunFiles::recipe));
    }
    for (const auto* file :
         {RunFiles::summary, RunFiles::metrics, RunFiles::model, RunFiles::vocabulary}) {
      fs::remove(directory / file);
    }
  }
  fs::create_directories(directory, error);
  if (error || !fs::is_directory(directory)) {
    throw InputError(fmt::format("{} cannot be made: {}", directory.string(),
                                 error ? error.message() : "a file of that name exists"));
  }
  replace_file(directory / RunFiles::recipe, to_toml(recipe));
}

void save_run(const fs::path& directory, const Recipe& recipe, const Tokenizer& tokenizer,
              const LanguageModel& model, const Outcome& outcome) {
  nlohmann::ordered_json summary{{"task", recipe.task},
                                 {"parameters", parameter_count(*model)},
                                 {"steps", recipe.training.steps},
                                 {"seconds", outcome.seconds},
                                 {"tokens_per_second", outcome.tokens_per_second},
                                 {"train_loss", outcome.train_loss},
                                 {"val_loss", outcome.evaluation.loss}};
  if (outcome.evaluation.accuracy) summary["accuracy"] = *outcome.evaluation.accuracy;

  for (const auto& [name, content] : tokenizer.files()) replace_file(directory / name, content);
  save_safetensors(directory / RunFiles::model,
                   {.tensors = state_dict(*model), .metadata = {{"format", "pt"}}});
  replace_file(directory / RunFiles::summary, summary.dump(2) + "\n");
}

Run load_run(const fs::path& directory) {
  if (!fs::is_directory(directory)) {
    throw InputError(fmt::format("{}: no such run directory", directory.string()));
  }
  if (fs::exists(directory / RunFiles::recipe) && !fs::exists(directory / RunFiles::summary)) {
    throw InputError(fmt::format("{}: this run did not finish: it has no {}", directory.string(),
                                 RunFiles::summary));
  }
  const auto within = [&](const char* file, const auto& load) {
    try {
      return load();
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", (directory / file).string(), error.what()));
    }
  };
  auto recipe = read_recipe(directory / RunFiles::recipe, Recipe{});
  within(RunFiles::recipe, [&] { check_recipe(recipe); });
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(directory);
  auto model = make_model(recipe, *tokenizer);
  const auto weights = load_safetensors(directory / RunFiles::model);
  within(RunFiles::model, [&] { load_state_dict(*model, weights.tensors); });
  model->eval();
  return {std::move(recipe), std::move(tokenizer), std::move(model)};
}

std::unique_ptr<Task> task_of(const Run& run) {
  auto task = find_task(run.recipe.task).make(run.recipe);
  if (task->vocabulary().files() != run.tokenizer->files()) {
    throw InputError(
        fmt::format("{}: its tokens are not those that the run has learned: {} found, "
                    "{} expected, or other ones",
                    run.recipe.text.empty() ? run.recipe.task : run.recipe.text,
                    task->vocabulary().size(), run.tokenizer->size()));
  }
  return task;
}

}  // namespace attend::train
