#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/example_batches.h"
#include "attend/train/example_task.h"
#include "attend/train/read_labelled_lines.h"
#include "io/utf8.h"
#include "train/checksum.h"
#include "train/recipe_fields.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace attend::train {
namespace {

void add_examples(const LabelledLines& lines, std::vector<Example>& examples) {
  for (std::size_t i = 0; i < lines.texts.size(); ++i) {
    examples.push_back({lines.texts[i], lines.classes[static_cast<std::size_t>(lines.labels[i])]});
  }
}

Batch rows_of(const std::vector<Example>& examples, const Recipe& recipe,
              const Tokenizer& tokenizer, const std::vector<std::string>& classes) {
  return classification_rows(examples,
                             {.tokenizer = tokenizer,
                              .padding = 0,
                              .length = recipe.max_seq_len(),
                              .truncate = recipe.data.truncate},
                             classes);
}

LabelledLines read_table(const std::filesystem::path& path, const DataConfig& data) {
  return read_labelled_lines(path, {.text = data.text_column, .label = data.label_column},
                             data.max_text_bytes);
}

/// Reads tables other than those from which tokenizer and classes were made. Throws InputError for
/// a text or a class that the model does not know. The message names the line.
template <typename Paths>
std::vector<Example> read_other_tables(const Paths& paths, const DataConfig& data,
                                       const Tokenizer& tokenizer,
                                       const std::vector<std::string>& classes) {
  std::vector<Example> examples;
  for (const std::filesystem::path path : paths) {
    const auto begin = examples.size();
    const auto lines = read_table(path, data);
    add_examples(lines, examples);
    for (auto i = begin; i < examples.size(); ++i) {
      with_source(fmt::format("{}:{}", path.string(), lines.line_numbers[i - begin]), [&] {
        tokenizer.encode(examples[i].prompt);
        if (std::find(classes.begin(), classes.end(), examples[i].answer) != classes.end()) return;
        throw InputError(fmt::format("unknown class '{}', expected one of {}",
                                     printable(examples[i].answer),
                                     printable(fmt::format("{}", fmt::join(classes, ", ")))));
      });
    }
  }
  return examples;
}

/// Returns the number of texts of each class.
std::map<std::string, int64_t> count_classes(const std::vector<Example>& examples) {
  std::map<std::string, int64_t> counts;
  for (const auto& example : examples) ++counts[example.answer];
  return counts;
}

/// Returns the most frequent classes and the number of texts of each.
std::string class_counts(const std::map<std::string, int64_t>& classes) {
  constexpr std::size_t kShown = 10;
  std::vector<std::pair<int64_t, std::string>> counts;  // count, negated for sorting, and class
  for (const auto& [name, count] : classes) counts.emplace_back(-count, name);
  std::sort(counts.begin(), counts.end());
  std::vector<std::string> shown;
  for (const auto& [count, name] : counts) {
    if (shown.size() < kShown) shown.push_back(fmt::format("{} ({})", printable(name), -count));
  }
  const auto more = counts.size() - shown.size();
  return fmt::format("{}: {}{}", counts.size(), fmt::join(shown, ", "),
                     more == 0 ? "" : fmt::format(", {} more", more));
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
      : recipe_(recipe) {
    std::vector<Example> examples;
    uint32_t checksum = 0;
    for (const auto& path : files_of(recipe)) {
      add_examples(read_table(path, recipe.data), examples);
      checksum = crc32c_of_file(path, checksum);
    }
    const auto counts = count_classes(examples);
    for (const auto& [name, count] : counts) classes_.push_back(name);
    const auto source = paths_text(recipe.text);
    if (classes_.size() < 2) {
      throw InputError(fmt::format("{}: expected at least two classes, found only '{}'", source,
                                   classes_.front()));
    }
    std::string all;
    for (const auto& example : examples) all += example.prompt + "\n";
    tokenizer_ = tokenizer_for(recipe, all, std::move(tokenizer));
    notes_.push_back({"classes", class_counts(counts)});
    if (const auto& val_text = recipe.data.val_text; !val_text.empty()) {
      const auto validation = read_other_tables(val_text, recipe.data, *tokenizer_, classes_);
      for (const auto& path : val_text) checksum = crc32c_of_file(path, checksum);
      set_examples(examples, validation);
      examples.insert(examples.end(), validation.begin(), validation.end());
    } else {
      with_source(source, [&] { set_examples(examples, recipe.data.val_fraction); });
    }
    checksum_ = fmt::format("{:08x}", checksum);
    note_truncation(examples);
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::vector<std::string> classes() const override { return classes_; }
  std::string data_checksum() const override { return checksum_; }
  std::vector<DataNote> data_notes() const override { return notes_; }
  /// Truncated texts, as the model sees them.
  std::vector<Example> samples() const override {
    auto examples = ListedTask::samples();
    for (auto& example : examples) {
      const auto tokens = tokenizer_->encode(example.prompt);
      const auto seen = truncated(tokens, recipe_.max_seq_len(), recipe_.data.truncate);
      if (seen.size() < tokens.size()) example.prompt = tokenizer_->decode(seen);
    }
    return examples;
  }

 protected:
  Batch rows(const std::vector<Example>& examples) const override {
    return rows_of(examples, recipe_, *tokenizer_, classes_);
  }

 private:
  void note_truncation(const std::vector<Example>& examples) {
    std::size_t longest = 0;
    int64_t count = 0;
    for (const auto& example : examples) {
      const auto size = tokenizer_->encode(example.prompt).size();
      longest = std::max(longest, size);
      count += static_cast<int64_t>(size) > recipe_.max_seq_len();
    }
    if (count == 0) return;
    const bool right = recipe_.data.truncate == TruncationSide::right;
    notes_.push_back(
        {"truncated",
         fmt::format("{} of {} texts to their {} {} tokens (the longest has {}); see --max-seq-len "
                     "and --truncate {}",
                     count, examples.size(), right ? "first" : "last", recipe_.max_seq_len(),
                     longest, right ? "left" : "right")});
  }

  Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  std::string checksum_;
  std::vector<DataNote> notes_;
};

std::vector<Batch> batches_of_table(const std::filesystem::path& path, const Recipe& recipe,
                                    const Tokenizer& tokenizer,
                                    const std::vector<std::string>& classes, int64_t size) {
  const auto examples = read_other_tables(std::array{path}, recipe.data, tokenizer, classes);
  return split_rows(rows_of(examples, recipe, tokenizer, classes), size);
}

}  // namespace

TaskInfo labelled_lines_task() {
  return {"labelled-lines",
          "class of each text in a table (.tsv or .csv)",
          LabelledLinesTask::defaults(),
          make<LabelledLinesTask>,
          {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown", "text_column",
           "label_column", "truncate"},
          batches_of_table};
}

}  // namespace attend::train
