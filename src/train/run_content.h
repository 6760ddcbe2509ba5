#pragma once

#include "attend/api.h"
#include "attend/train/recipe.h"
#include "attend/train/task.h"
#include "train/provenance.h"

#include <map>
#include <string>
#include <vector>

namespace attend::train {

/// Identity and origin of a run, and the values that must be the same when it is resumed; saved as
/// data.json. `RunDirectory::create` sets the fields `run_id`, `provenance` and `files`.
struct RunRecord {
  std::string run_id = {};     ///< 128 random bits as 32 hex digits; also in all files with weights
  Provenance provenance = {};  ///< when and how the run was created
  std::string data_checksum;   ///< `Task::data_checksum`
  std::vector<std::string> classes;          ///< class names of a classifier
  std::map<std::string, std::string> fixed;  ///< configuration values that must not change, by key
  std::map<std::string, std::string> files = {};  ///< CRC-32C of the tokenizer's files, by name
  std::string init_from = {};  ///< `run_id` of the run whose weights were the initial weights;
                               ///< empty if the initial weights were random
};

/// Content of a run directory before training.
struct RunContent {
  std::string recipe;                             ///< text of recipe.toml
  RunRecord record;                               ///< content of data.json
  std::map<std::string, std::string> files = {};  ///< contents of further files, by name
};

/// Content of a run that trains a model of this library.
ATTEND_API RunContent run_content(const Recipe& recipe, const Task& task);

/// Content of a run that trains a custom module. `values` describe the module. They must be the
/// same when the run is resumed.
ATTEND_API RunContent run_content(const TrainingConfig& config,
                                  const std::map<std::string, std::string>& values);

}  // namespace attend::train
