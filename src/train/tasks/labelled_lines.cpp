#include "attend/train/labelled_lines.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/checksum.h"
#include "attend/train/evaluation.h"
#include "attend/train/example_batches.h"
#include "attend/train/example_task.h"
#include "attend/train/tokenizers.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

constexpr uint64_t kSplitSeed = 20171219;
constexpr std::size_t kShown = 5;

std::vector<Example> examples_of(const LabelledLines& lines) {
  std::vector<Example> examples;
  for (std::size_t i = 0; i < lines.texts.size(); ++i) {
    examples.push_back({lines.texts[i], lines.classes[static_cast<std::size_t>(lines.labels[i])]});
  }
  return examples;
}

Batch rows_of(const std::vector<Example>& examples, const Recipe& recipe,
              const Tokenizer& tokenizer, const std::vector<std::string>& classes) {
  return classification_rows(
      examples, {.tokenizer = tokenizer, .padding = 0, .length = recipe.context(), .cut = true},
      classes);
}

/// Texts with labels, from a table of two columns: to which class does a text belong?
class LabelledLinesTask : public ListedTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.task = "labelled-lines";
    recipe.model = SequenceClassifierConfig{};
    recipe.context() = 128;
    recipe.stack().dropout = 0.1;
    recipe.training.steps = 1000;
    recipe.training.batch = 32;
    recipe.training.lr = 1e-3;
    return recipe;
  }

  explicit LabelledLinesTask(const Recipe& recipe) {
    if (recipe.text.empty()) {
      throw InputError("the task 'labelled-lines' needs a .tsv or .csv file: give it with --text");
    }
    const auto lines = read_labelled_lines(recipe.text);
    classes_ = lines.classes;
    checksum_ = fmt::format("{:08x}", crc32c_of_file(recipe.text));
    std::string all;
    for (const auto& text : lines.texts) all += text + "\n";
    tokenizer_ = make_tokenizer(recipe.data.unit, all, recipe.data.vocabulary);
    split(examples_of(lines), recipe);
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::string data_checksum() const override { return checksum_; }

 private:
  void split(const std::vector<Example>& examples, const Recipe& recipe) {
    const auto count = static_cast<int64_t>(examples.size());
    const auto kept = static_cast<int64_t>(static_cast<double>(count) * recipe.data.held_out);
    if (kept < 1) {
      throw InputError(fmt::format("{}: {} lines are too few to hold out {} of them", recipe.text,
                                   count, recipe.data.held_out));
    }
    const auto order = Sampler(kSplitSeed).rows(count, count);
    std::vector<Example> held_out;
    std::vector<Example> training;
    for (int64_t i = 0; i < count; ++i) {
      (i < kept ? held_out : training)
          .push_back(examples[static_cast<std::size_t>(order[i].item<int64_t>())]);
    }
    const auto shown = static_cast<std::ptrdiff_t>(std::min(held_out.size(), kShown));
    set_examples(rows_of(training, recipe, *tokenizer_, classes_),
                 rows_of(held_out, recipe, *tokenizer_, classes_),
                 {held_out.begin(), held_out.begin() + shown});
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  std::string checksum_;
};

std::vector<Batch> batches_of_file(const std::filesystem::path& path, const Recipe& recipe,
                                   const Tokenizer& tokenizer,
                                   const std::vector<std::string>& classes) {
  const auto lines = read_labelled_lines(path);
  try {
    return split_rows(rows_of(examples_of(lines), recipe, tokenizer, classes), kRowsAtOnce);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace

TaskInfo labelled_lines_task() {
  return {"labelled-lines", "the class of each text of a table (.tsv or .csv) given with --text",
          LabelledLinesTask::defaults(),
          [](const Recipe& recipe) -> std::unique_ptr<Task> {
            return std::make_unique<LabelledLinesTask>(recipe);
          },
          batches_of_file};
}

}  // namespace attend::train
