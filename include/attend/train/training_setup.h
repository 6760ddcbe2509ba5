#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"
#include "attend/models/model.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// The weights of another model with which a run begins; see `TrainingRunOptions::init_from`.
struct InitialWeights {
  std::filesystem::path directory;  ///< directory of the other run, or folder of a published model
  std::string run_id;               ///< identity of the other model: `InitialModel::id`
  std::string checksum;             ///< CRC-32C of all tensors of the other model
  int64_t num_tensors = 0;          ///< number of tensors that were copied
  IncompatibleKeys keys = {};       ///< tensors that are new, and tensors of the other run that are
                                    ///< not used
  std::vector<std::string> changed_options = {};  ///< a line for each option of the model whose
                                                  ///< value differs from the other run
  std::vector<std::string> warnings = {};         ///< `InitialModel::warnings`
};

/// A recipe with its task, model and device.
struct TrainingSetup {
  Recipe recipe;                                       ///< as passed to `make_training_setup`
  torch::Device device;                                ///< resolved from the recipe
  std::shared_ptr<const Task> task;                    ///< with its data
  Model model;                                         ///< with its initial weights, on the device
  std::optional<InitialWeights> initial_weights = {};  ///< empty if all weights are random
};

/// Makes the task and the model of a recipe. Seeds LibTorch's global generators with the recipe's
/// seed. `tokenizer` is passed to `task_maker`. Throws InputError for a device that is not
/// available, and in the same cases as `check_recipe`, `make_task` and `make_model`.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                                             const TaskMaker& task_maker = make_task);

/// Makes the task and the model of a recipe. The initial weights of the model are those of the run
/// or published model in `init_from`, or random if `init_from` is empty.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe,
                                             const std::filesystem::path& init_from,
                                             const TaskMaker& task_maker = make_task);

/// Returns a recipe for a run of `task` that begins with the weights of a run with the recipe
/// `source`: the default recipe of `task`, with the options of the model and the tokenizer of
/// `source`. If `source` has the same task, text and data options are also those of `source`. If
/// the tasks require different kinds of models, only the stack options and `max_seq_len` of the
/// model are taken from `source`. Throws InputError for an unknown task.
///
///     auto recipe = fine_tuning_recipe(RunDirectory::open("runs/base").recipe(), "text");
///     recipe.text = {"other.txt"};
///     auto run = make_training_run("runs/tuned", recipe, {.init_from = "runs/base"});
ATTEND_API Recipe fine_tuning_recipe(const Recipe& source, const std::string& task);

}  // namespace attend::train
