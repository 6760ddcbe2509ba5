#pragma once

#include "attend/io/vocabulary.h"
#include "attend/models/language_model.h"
#include "attend/train/recipe.h"
#include "attend/train/trainer.h"

#include <filesystem>
#include <string>

namespace attend::train {

/// The files of a run directory.
struct RunFiles {
  static constexpr const char* recipe = "recipe.toml";         ///< all values, written out
  static constexpr const char* model = "model.safetensors";    ///< the weights
  static constexpr const char* vocabulary = "tokenizer.json";  ///< Vocabulary::to_json
  static constexpr const char* metrics = "metrics.jsonl";      ///< a line per report
  static constexpr const char* summary = "summary.json";       ///< what was reached
};

/// A trained model with what it takes to use it.
struct Run {
  Recipe recipe;
  Vocabulary vocabulary;
  LanguageModel model;  ///< in eval mode
};

/// The model that a recipe describes, with fresh weights drawn from the recipe's seed.
LanguageModel make_model(const Recipe& recipe, const Vocabulary& vocabulary);

/// Makes the directory for a new run. Throws InputError if it exists, unless `overwrite`: then the
/// files of the run that it holds are removed, and nothing else; one that holds anything but a run
/// is refused.
void create_run_directory(const std::filesystem::path& directory, bool overwrite);

/// Writes everything but metrics.jsonl, the summary last: a directory that has one is whole.
void save_run(const std::filesystem::path& directory, const Recipe& recipe,
              const Vocabulary& vocabulary, const LanguageModel& model, const Outcome& outcome);

/// Loads what `save_run` wrote. Throws InputError, naming the file, if something is missing or
/// does not fit.
///
///     auto run = load_run("runs/demo");
///     auto logits = run.model(tokens);
Run load_run(const std::filesystem::path& directory);

}  // namespace attend::train
