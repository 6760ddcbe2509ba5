#include "attend/train/task.h"

#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/nearest_name.h"
#include "attend/train/recipe_fields.h"
#include "train/checksum.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace attend::train {

namespace {

std::vector<TaskInfo> all_tasks() {
  std::vector<TaskInfo> all = letter_tasks();
  all.insert(all.begin(), senses_task());
  all.insert(all.end(), {
                            addition_task(),
                            modular_arithmetic_task(),
                            associative_recall_task(),
                            balanced_brackets_task(),
                            translation_task(),
                            text_task(),
                            labelled_lines_task(),
                            answers_task(),
                            token_classification_task(),
                            masked_lm_task(),
                        });
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
  throw InputError(fmt::format("unknown task '{}', expected one of {}{}", name,
                               fmt::join(names, ", "), did_you_mean(name, names)));
}

namespace {

/// Checks the keys of the section `data` that the task does not read. Throws InputError if the
/// recipe's value of such a key is not the task's default.
void check_data_keys(const TaskInfo& task, const Recipe& recipe) {
  for (const auto& field : recipe_fields()) {
    const auto& read = task.data_keys;
    if (std::string_view(field.section) != "data" ||
        std::find(read.begin(), read.end(), field.key) != read.end() ||
        value_text(field, recipe) == value_text(field, task.defaults)) {
      continue;
    }
    throw InputError(fmt::format(
        "the task {} does not read `{}` (key data.{}); it reads: {}", task.name, field.key,
        field.key, read.empty() ? "none" : fmt::format("`{}`", fmt::join(read, "`, `"))));
  }
}

/// Throws InputError if the classifier of a recipe predicts something else than the task requires:
/// the sequence, each token or masked tokens.
void check_outputs(const TaskInfo& task, const Recipe& recipe) {
  const auto* config = std::get_if<SequenceClassifierConfig>(&recipe.model);
  if (config == nullptr) return;
  const auto& wanted = std::get<SequenceClassifierConfig>(task.defaults.model);
  if (config->masked_lm != wanted.masked_lm) {
    throw InputError(fmt::format("the task {} requires masked_lm {}, found {}", task.name,
                                 wanted.masked_lm, config->masked_lm));
  }
  const bool tags = wanted.pooling == Pooling::none;
  if (wanted.masked_lm || (config->pooling == Pooling::none) == tags) return;
  throw InputError(fmt::format("the task {} requires {}, found pooling {}", task.name,
                               tags ? "pooling none" : "pooling mean, max or first",
                               to_string(config->pooling)));
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_for(const Recipe& recipe, std::string_view text,
                                               std::shared_ptr<const Tokenizer> trained) {
  if (trained != nullptr) return trained;
  const auto& data = recipe.data;
  return make_tokenizer(data.tokenizer, text, data.vocab_size, data.unknown);
}

const std::vector<std::string>& files_of(const Recipe& recipe) {
  if (recipe.text.empty()) {
    throw InputError(
        fmt::format("the task '{}' needs a file, found none: set `text = FILE`", recipe.task));
  }
  return recipe.text;
}

std::string checksum_of_files(const std::vector<std::string>& paths) {
  uint32_t checksum = 0;
  for (const auto& path : paths) checksum = crc32c_of_file(path, checksum);
  return checksum_text(checksum);
}

void check_text(const Tokenizer& tokenizer, const std::string& text, bool can_change) {
  changing_unknown_token(&UnknownTokenError::without_place, [&] {
    changing_unknown_token(
        can_change ? &UnknownTokenError::with_options : &UnknownTokenError::with_fixed_tokenizer,
        [&] { tokenizer.encode(text); });
  });
}

DataNote files_note(std::string name, const std::vector<std::string>& paths,
                    std::uintmax_t num_bytes) {
  return {std::move(name), fmt::format("{} file{}, {} bytes", paths.size(),
                                       paths.size() == 1 ? "" : "s", num_bytes)};
}

void check_max_seq_len(const Recipe& recipe, int64_t longest) {
  if (recipe.max_seq_len() >= longest) return;
  throw InputError(fmt::format(
      "max_seq_len is {}, expected at least {}: the longest sequence of the task {} has {} tokens",
      recipe.max_seq_len(), longest, recipe.task, longest));
}

std::unique_ptr<Task> make_task(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto& task = find_task(recipe.task);
  const auto wanted = model_kind(task.defaults.model);
  if (model_kind(recipe.model) != wanted) {
    throw InputError(fmt::format("the task {} requires model.kind {}, found {}", recipe.task,
                                 wanted, model_kind(recipe.model)));
  }
  check_data_keys(task, recipe);
  check_outputs(task, recipe);
  if (!recipe.text.empty() && !task.reads_file()) {
    throw InputError(fmt::format("the task {} does not read a file, but `text` is set to '{}'",
                                 recipe.task, paths_text(recipe.text)));
  }
  auto made = task.make(recipe, std::move(tokenizer));
  made->samples();  // throws, before training starts, if there is no validation data
  return made;
}

}  // namespace attend::train
