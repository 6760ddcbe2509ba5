#pragma once

#include "attend/io/tokenizer.h"
#include "attend/models/language_model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "attend/train/trainer.h"

#include <filesystem>
#include <memory>
#include <string>

namespace attend::train {

/// The files of a run directory.
struct RunFiles {
  static constexpr const char* recipe = "recipe.toml";       ///< all values, written out
  static constexpr const char* model = "model.safetensors";  ///< the weights
  static constexpr const char* vocabulary = kTokenizerFile;  ///< what its tokens are
  static constexpr const char* metrics = "metrics.jsonl";    ///< a line per report
  static constexpr const char* summary = "summary.json";     ///< what was reached
};

/// A trained model with what it takes to use it.
struct Run {
  Recipe recipe;
  std::shared_ptr<const Tokenizer> tokenizer;
  LanguageModel model;  ///< in eval mode
};

/// The model that a recipe describes, with fresh weights. Seeds LibTorch's global generator with
/// the recipe's seed and draws them from it.
LanguageModel make_model(const Recipe& recipe, const Tokenizer& tokenizer);

/// Makes the directory for a new run and writes its recipe. Throws InputError if it exists and is
/// not empty, unless `overwrite`: then the files of the run that it holds are removed, and nothing
/// else; without a recipe.toml it is no run, and is refused.
void create_run_directory(const std::filesystem::path& directory, const Recipe& recipe,
                          bool overwrite);

/// Writes what training made, the summary last: a run that has one is finished.
void save_run(const std::filesystem::path& directory, const Recipe& recipe,
              const Tokenizer& tokenizer, const LanguageModel& model, const Outcome& outcome);

/// Loads a finished run; seeds LibTorch's global generator, as `make_model` does. Throws
/// InputError, naming the file, if something is missing or does not fit.
///
///     auto run = load_run("runs/demo");
///     auto logits = run.model(tokens);
Run load_run(const std::filesystem::path& directory);

/// The task of a run, with its data. Throws InputError if its tokens are no longer those that the
/// model was trained on, as after a change to the text file.
std::unique_ptr<Task> task_of(const Run& run);

}  // namespace attend::train
