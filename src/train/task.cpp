#include "attend/train/task.h"

#include "attend/input_error.h"
#include "attend/nearest_name.h"
#include "attend/train/senses_task.h"
#include "attend/train/text_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::train {

namespace {

std::vector<TaskInfo> all_tasks() {
  std::vector<TaskInfo> all{
      {"senses", "which of two meanings a word has in its sentence", SensesTask::defaults(),
       make<SensesTask>},
      copy_task(),
      reverse_task(),
      sort_task(),
      addition_task(),
      modular_arithmetic_task(),
      associative_recall_task(),
      balanced_brackets_task(),
      translation_task(),
      {"text", "the next character, byte, word or subword of the file given with --text",
       TextTask::defaults(), make<TextTask>,
       [](const std::filesystem::path& path, const Recipe& recipe, const Tokenizer& tokenizer,
          const std::vector<std::string>&,
          int64_t size) { return TextTask::batches_of_file(path, recipe, tokenizer, size); }},
      labelled_lines_task(),
  };
  for (auto& task : all) task.defaults.task = task.name;
  return all;
}

}  // namespace

const std::vector<TaskInfo>& tasks() {
  static const auto all = all_tasks();
  return all;
}

const TaskInfo& find_task(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& task : tasks()) {
    if (task.name == name) return task;
    names.emplace_back(task.name);
  }
  throw InputError(fmt::format("unknown task '{}'; did you mean '{}'? There are: {}", name,
                               nearest_name(name, names), fmt::join(names, ", ")));
}

std::unique_ptr<Task> make_task(const Recipe& recipe) {
  const auto& task = find_task(recipe.task);
  const auto wanted = model_kind(task.defaults.model);
  if (model_kind(recipe.model) != wanted) {
    throw InputError(fmt::format("the task {} trains a {}, the recipe names a {}", recipe.task,
                                 wanted, model_kind(recipe.model)));
  }
  auto made = task.make(recipe);
  made->samples();  // throws if nothing is left to hold out, hours before the first evaluation
  return made;
}

}  // namespace attend::train
