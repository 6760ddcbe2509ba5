#include "support/task_examples.h"

#include "attend/train/answer.h"
#include "io/files.h"

namespace attend::train {
namespace {

/// Returns the elements of `row` where `mask` is true.
std::vector<int64_t> selected_tokens(const torch::Tensor& row, const torch::Tensor& mask) {
  const auto numbers = row.masked_select(mask).contiguous();
  const auto* data = numbers.data_ptr<int64_t>();
  return {data, data + numbers.numel()};
}

Example continuation(const torch::Tensor& tokens, const torch::Tensor& targets, const Task& task) {
  const auto counted = targets.ne(kIgnoreIndex);
  const auto length = counted.to(torch::kLong).argmax().item<int64_t>() + 1;
  return {
      task.tokenizer().decode(selected_tokens(tokens, torch::arange(tokens.size(0)).lt(length))),
      task.tokenizer().decode(selected_tokens(targets, counted))};
}

Example translation(const Batch& batch, int64_t row, const Task& task) {
  auto answer = selected_tokens(batch.targets[row], batch.targets[row].ne(kIgnoreIndex));
  if (answer.back() == task.tokenizer().encode(kEosToken).at(0)) answer.pop_back();
  return {task.tokenizer().decode(selected_tokens(batch.tokens[row], batch.key_mask[row])),
          task.tokenizer().decode(answer)};
}

}  // namespace

Recipe recipe_with_text(const TaskInfo& task, const std::filesystem::path& directory) {
  auto recipe = task.defaults;
  if (task.reads_file()) {
    const bool labelled = task.name == std::string("labelled-lines");
    std::string text = labelled ? "text\tlabel\n" : "";
    for (int i = 0; i < 2400; ++i) {  // each line occurs twice
      text += "line " + std::to_string(i / 2 * (i / 2));
      text += labelled ? (i / 2 % 2 == 0 ? "\teven\n" : "\todd\n") : "\n";
    }
    recipe.text = {(directory / "text.tsv").string()};
    replace_file(recipe.text.front(), text);
  }
  return recipe;
}

std::vector<Example> examples_in(const Batch& batch, const Task& task) {
  const auto classes = task.classes();
  std::vector<Example> examples;
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    if (!classes.empty()) {
      examples.push_back(
          {task.tokenizer().decode(selected_tokens(batch.tokens[row], batch.key_mask[row])),
           classes.at(static_cast<std::size_t>(batch.targets[row].item<int64_t>()))});
    } else if (batch.decoder_tokens.defined()) {
      examples.push_back(translation(batch, row, task));
    } else {
      examples.push_back(continuation(batch.tokens[row], batch.targets[row], task));
    }
  }
  return examples;
}

}  // namespace attend::train
