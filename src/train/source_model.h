#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "attend/module_ref.h"
#include "attend/train/run_directory.h"
#include "attend/train/training_setup.h"

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend::train {

/// A model with whose weights a run begins.
struct SourceModel {
  std::filesystem::path path;  ///< directory of a run, or folder of a published model
  std::string id;              ///< `InitialModel::id`
  std::string checksum;        ///< that of `InitialModel::load`, for `BaseModel::checksum`
  Run run;                     ///< without adapters: those of the source are merged
  bool is_published = false;
  std::vector<std::string> warnings = {};  ///< `InitialModel::warnings`
};

/// Number of base models of base models. A changed file must not make a run the base of itself.
inline constexpr int kMaxBases = 8;

/// Loads the model of `InitialModel(path)`. Throws InputError in the same cases as its functions.
ATTEND_API SourceModel load_source(const std::filesystem::path& path);

/// Loads the base model of a run with adapters. Throws InputError if it is missing or damaged, or
/// has another checksum than `base.checksum`; the message contains the path and both checksums.
ATTEND_API SourceModel load_base(const BaseModel& base);

/// Makes the task and the model of a recipe, with the weights of `source` as initial weights; see
/// `TrainingRunOptions::init_from`. If the recipe has adapters, adds them to the model: then only
/// the adapters, and the tensors that `source` does not have, require a gradient.
ATTEND_API TrainingSetup make_training_setup(const Recipe& recipe, const SourceModel& source,
                                             const TaskMaker& task_maker);

/// Calls `add_lora` with the options of the recipe. Throws InputError where `add_lora` throws
/// c10::ValueError.
ATTEND_API void add_lora_of(const Recipe& recipe, torch::nn::Module& module);

/// Returns the recipe of the model of `recipe` with merged adapters. An adapter of a tied head
/// unties the embeddings.
ATTEND_API Recipe merged_recipe(Recipe recipe);

/// Returns the weights of a model with the names that they have in a model of the kind `kind`. If
/// `classes` are those of `source` in another order, as those of a published model may be, the rows
/// of the head are in the order of `classes`.
ATTEND_API std::map<std::string, torch::Tensor> weights_for(
    const ModelConfig& kind, const Run& source, const std::vector<std::string>& classes);

/// Adds the adapters of `recipe` to `model`, which has the classes `classes`, and copies the
/// weights: the `own` tensors of a run, and all others from its base model. Throws InputError if
/// tensors are missing or have other shapes.
ATTEND_API void load_adapted(const Recipe& recipe, const std::vector<std::string>& classes,
                             Model& model, const std::map<std::string, torch::Tensor>& own,
                             const SourceModel& base);

/// Copies `tensors` into `module`, whose tensors with other names keep their values. Throws
/// InputError for an unexpected name or shape.
ATTEND_API void load_some(ModuleRef module, std::map<std::string, torch::Tensor> tensors);

}  // namespace attend::train
