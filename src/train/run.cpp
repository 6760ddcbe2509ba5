#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/safetensors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attend::train {

namespace fs = std::filesystem;

LanguageModel make_model(const Recipe& recipe, const Vocabulary& vocabulary) {
  auto config = recipe.model;
  config.vocab_size = vocabulary.size();
  torch::manual_seed(static_cast<uint64_t>(recipe.training.seed));
  return LanguageModel(config);
}

void create_run_directory(const fs::path& directory, bool overwrite) {
  if (fs::exists(directory)) {
    if (!overwrite) {
      throw InputError(
          fmt::format("{} exists; choose another --out, or give --overwrite", directory.string()));
    }
    const bool empty = fs::is_directory(directory) && fs::is_empty(directory);
    if (!empty && !fs::is_regular_file(directory / RunFiles::recipe)) {
      throw InputError(fmt::format("{} holds no {}, so it is not a run: it is left alone",
                                   directory.string(), RunFiles::recipe));
    }
    // The recipe goes last: until then the directory is still known as a run.
    for (const auto* file : {RunFiles::summary, RunFiles::metrics, RunFiles::model,
                             RunFiles::vocabulary, RunFiles::recipe}) {
      fs::remove(directory / file);
    }
  }
  try {
    fs::create_directories(directory);
  } catch (const fs::filesystem_error& error) {
    throw InputError(
        fmt::format("{} cannot be made: {}", directory.string(), error.code().message()));
  }
}

void save_run(const fs::path& directory, const Recipe& recipe, const Vocabulary& vocabulary,
              const LanguageModel& model, const Outcome& outcome) {
  int64_t parameters = 0;
  for (const auto& parameter : model->parameters()) parameters += parameter.numel();
  nlohmann::ordered_json summary{{"task", recipe.task},
                                 {"parameters", parameters},
                                 {"steps", recipe.training.steps},
                                 {"seconds", outcome.seconds},
                                 {"tokens_per_second", outcome.tokens_per_second},
                                 {"train_loss", outcome.train_loss},
                                 {"val_loss", outcome.evaluation.loss}};
  if (outcome.evaluation.accuracy) summary["accuracy"] = *outcome.evaluation.accuracy;

  replace_file(directory / RunFiles::recipe, to_toml(recipe));
  replace_file(directory / RunFiles::vocabulary, vocabulary.to_json());
  save_safetensors(directory / RunFiles::model,
                   {.tensors = state_dict(*model), .metadata = {{"format", "pt"}}});
  replace_file(directory / RunFiles::summary, summary.dump(2) + "\n");
}

Run load_run(const fs::path& directory) {
  if (!fs::is_directory(directory)) {
    throw InputError(fmt::format("{}: no such run directory", directory.string()));
  }
  auto recipe = read_recipe(directory / RunFiles::recipe, Recipe{});
  auto vocabulary = Vocabulary::from_json(read_bytes(directory / RunFiles::vocabulary));
  auto model = make_model(recipe, vocabulary);
  load_state_dict(*model, load_safetensors(directory / RunFiles::model).tensors);
  model->eval();
  return {std::move(recipe), std::move(vocabulary), std::move(model)};
}

}  // namespace attend::train
