#pragma once

#include "attend/train/task.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace attend::app {

/// A `train::TaskMaker` that keeps the last task, since --epochs and the runs of a sweep need the
/// same data several times, and large files take long to read and encode.
///
///     TaskCache tasks;
///     train::make_training_run(directory, recipe, {.task_maker = std::ref(tasks)});
class TaskCache {
 public:
  /// Returns the task of `recipe`; see `train::make_task`.
  std::shared_ptr<const train::Task> operator()(const train::Recipe& recipe,
                                                std::shared_ptr<const Tokenizer> tokenizer);

 private:
  /// Everything that determines a task: the values of the recipe that tasks read, and the files of
  /// the tokenizer.
  struct Key {
    std::string recipe = {};
    int64_t max_text_bytes = 0;
    std::optional<std::map<std::string, std::string>> tokenizer = {};
    bool operator==(const Key&) const = default;
  };

  Key key_;
  std::shared_ptr<const train::Task> task_;
};

}  // namespace attend::app
