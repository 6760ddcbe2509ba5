#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/example_batches.h"
#include "attend/train/example_task.h"
#include "attend/train/read_labelled_lines.h"
#include "io/files.h"
#include "train/checksum.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

std::vector<Example> examples_of(const LabelledLines& lines) {
  std::vector<Example> examples;
  for (std::size_t i = 0; i < lines.texts.size(); ++i) {
    examples.push_back({lines.texts[i], lines.classes[static_cast<std::size_t>(lines.labels[i])]});
  }
  return examples;
}

Batch rows_of(const std::vector<Example>& examples, int64_t length, const Tokenizer& tokenizer,
              const std::vector<std::string>& classes) {
  return classification_rows(
      examples, {.tokenizer = tokenizer, .padding = 0, .length = length, .truncate = true},
      classes);
}

/// Text classification with texts and labels from a table.
class LabelledLinesTask : public ListedTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.model = SequenceClassifierConfig{};
    recipe.max_seq_len() = 128;
    recipe.stack().dropout = 0.1;
    recipe.training.max_steps = 1000;
    recipe.training.batch_size = 32;
    recipe.training.lr = 1e-3;
    return recipe;
  }

  LabelledLinesTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : max_seq_len_(recipe.max_seq_len()) {
    if (recipe.text.empty()) {
      throw InputError(
          "the task 'labelled-lines' needs a .tsv or .csv file: set the key 'text' of the recipe "
          "or pass --text FILE");
    }
    const auto lines = read_labelled_lines(recipe.text);
    classes_ = lines.classes;
    if (classes_.size() < 2) {
      throw InputError(fmt::format("{}: expected at least two classes, found only '{}'",
                                   recipe.text, classes_.front()));
    }
    checksum_ = fmt::format("{:08x}", crc32c_of_file(recipe.text));
    std::string all;
    for (const auto& text : lines.texts) all += text + "\n";
    tokenizer_ = tokenizer_for(recipe, all, std::move(tokenizer));
    with_source(recipe.text, [&] { set_examples(examples_of(lines), recipe.data.val_fraction); });
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::string data_checksum() const override { return checksum_; }

 protected:
  Batch rows(const std::vector<Example>& examples) const override {
    return rows_of(examples, max_seq_len_, *tokenizer_, classes_);
  }

 private:
  int64_t max_seq_len_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  std::string checksum_;
};

std::vector<Batch> batches_of_table(const std::filesystem::path& path, const Recipe& recipe,
                                    const Tokenizer& tokenizer,
                                    const std::vector<std::string>& classes, int64_t size) {
  const auto lines = read_labelled_lines(path);
  return with_source(path.string(), [&] {
    return split_rows(rows_of(examples_of(lines), recipe.max_seq_len(), tokenizer, classes), size);
  });
}

}  // namespace

TaskInfo labelled_lines_task() {
  return {"labelled-lines",
          "class of each text in a table (.tsv or .csv)",
          LabelledLinesTask::defaults(),
          make<LabelledLinesTask>,
          {"val_fraction", "tokenizer", "vocab_size"},
          batches_of_table};
}

}  // namespace attend::train
