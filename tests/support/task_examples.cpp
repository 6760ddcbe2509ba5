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

Example tagged_words(const Batch& batch, int64_t row, const Task& task) {
  Example example{task.tokenizer().decode(selected_tokens(batch.tokens[row], batch.key_mask[row])),
                  ""};
  for (const auto tag : selected_tokens(batch.targets[row], batch.targets[row].ne(kIgnoreIndex)))
    example.answer += " " + task.classes().at(static_cast<std::size_t>(tag));
  return example;
}

}  // namespace

Recipe recipe_with_text(const TaskInfo& task, const std::filesystem::path& directory) {
  auto recipe = task.defaults;
  if (task.reads_file()) {
    const bool labelled = task.name == std::string("labelled-lines");
    const bool answered = task.name == std::string("answers");
    const bool tagged = task.name == std::string("token-classification");
    recipe.data.vocab_size = 0;  // no unknown words
    std::string text = labelled ? "text\tlabel\n" : answered ? "prompt\tanswer\n" : "";
    for (int i = 0; i < 2400; ++i) {  // each line occurs twice
      text += (tagged ? "line\tword\n" : "line ") + std::to_string(i / 2 * (i / 2));
      text += tagged                 ? (i / 2 % 2 == 0 ? "\teven\n\n" : "\todd\n\n")
              : labelled || answered ? (i / 2 % 2 == 0 ? "\teven\n" : "\todd\n")
                                     : "\n";
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
    if (batch.problem.type == ProblemType::token_classification) {
      examples.push_back(tagged_words(batch, row, task));
    } else if (!classes.empty()) {
      examples.push_back(
          {task.tokenizer().decode(selected_tokens(batch.tokens[row], batch.key_mask[row])),
           classes.at(static_cast<std::size_t>(batch.targets[row].item<int64_t>()))});
    } else if (batch.decoder_tokens.defined()) {
      examples.push_back(translation(batch, row, task));
    } else if (batch.segments.defined()) {
      for (int64_t segment = 1; segment <= batch.segments[row].max().item<int64_t>(); ++segment) {
        const auto mask = batch.segments[row].eq(segment);
        examples.push_back(continuation(batch.tokens[row].masked_select(mask),
                                        batch.targets[row].masked_select(mask), task));
      }
    } else {
      examples.push_back(continuation(batch.tokens[row], batch.targets[row], task));
    }
  }
  return examples;
}

}  // namespace attend::train
