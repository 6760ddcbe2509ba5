#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"
#include "attend/train/loss.h"
#include "attend/train/read_table.h"
#include "attend/train/recipe_fields.h"
#include "train/checksum.h"
#include "train/problem_rules.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace attend::train {
namespace {

Batch rows_of(const std::vector<Example>& examples, const Recipe& recipe,
              const Tokenizer& tokenizer, const std::vector<std::string>& classes) {
  return classification_rows(examples,
                             {.tokenizer = tokenizer,
                              .padding = 0,
                              .length = recipe.max_seq_len(),
                              .truncate = recipe.data.truncate},
                             classes, problem_of(recipe.data));
}

/// Returns the parts of a text between separators, without spaces around them and empty parts.
std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    const auto part = text.substr(begin, end - begin);
    if (const auto first = part.find_first_not_of(' '); first != part.npos)
      parts.push_back(part.substr(first, part.find_last_not_of(' ') + 1 - first));
    begin = end + separator.size();
  }
  return parts;
}

/// Returns the names of the columns of labels: several ones if a multi-label classification has a
/// column of 0 and 1 for each label.
std::vector<std::string> label_columns(const DataConfig& data) {
  if (data.problem_type != ProblemType::multi_label_classification) return {data.label_column};
  return split(data.label_column, ",");
}

/// Returns true for the cell of a label that a text has. Throws InputError if it is neither 0
/// nor 1.
bool is_set(const std::string& cell, const std::string& column) {
  for (const char* text : {"1", "1.0", "true", "True"}) {
    if (cell == text) return true;
  }
  for (const char* text : {"0", "0.0", "false", "False", ""}) {
    if (cell == text) return false;
  }
  throw InputError(fmt::format("the column '{}' has the value '{}', expected 0 or 1",
                               printable(column), printable(cell)));
}

/// Returns an example with the labels in the cells of the columns `label_columns`. `is_list`: the
/// first cell is a JSON list.
Example example_of(std::string text, const std::vector<std::string>& cells, const DataConfig& data,
                   bool is_list) {
  Example example{std::move(text), cells.front()};
  if (data.problem_type == ProblemType::regression) number_label(example.answer);  // throws
  if (data.problem_type != ProblemType::multi_label_classification) return example;
  auto& labels = example.labels;
  if (const auto columns = label_columns(data); columns.size() == 1) {
    labels = is_list ? texts_of_list(cells.front(), columns.front())
                     : split(cells.front(), data.label_separator);
  } else {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (is_set(cells[i], columns[i])) labels.push_back(columns[i]);
    }
  }
  std::ranges::sort(labels);
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  example.answer = labels_text(labels);
  return example;
}

PlacedExamples read_labelled_texts(const std::vector<std::string>& paths, const DataConfig& data) {
  const bool is_multi_label = data.problem_type == ProblemType::multi_label_classification;
  const auto names = label_columns(data);
  std::vector<TableColumn> columns{{.name = data.text_column,
                                    .option = "text_column",
                                    .encoding = text_encoding(data.tokenizer)}};
  for (const auto& name : names) {
    columns.push_back({.name = name,  // UTF-8: labels become names in JSON
                       .option = "label_column",
                       .may_be_empty = is_multi_label,
                       .may_be_list = is_multi_label});
  }
  PlacedExamples all{paths, {}, {}};
  for (std::size_t path = 0; path < paths.size(); ++path) {
    auto table = read_table(paths[path], columns, data.max_text_bytes);
    for (std::size_t i = 0; i < table.line_numbers.size(); ++i) {
      std::vector<std::string> cells;
      for (std::size_t c = 1; c < table.columns.size(); ++c)
        cells.push_back(std::move(table.columns[c][i]));
      with_source(fmt::format("{}:{}", paths[path], table.line_numbers[i]), [&] {
        all.examples.push_back(example_of(with_line_breaks(std::move(table.columns[0][i]), data),
                                          cells, data, table.lists.contains({1, i})));
      });
      all.places.emplace_back(path, table.line_numbers[i]);
    }
  }
  return all;
}

/// Returns the names of an example's classes or labels.
std::vector<std::string> labels_of(const Example& example, const DataConfig& data) {
  return data.problem_type == ProblemType::multi_label_classification
             ? example.labels
             : std::vector<std::string>{example.answer};
}

/// Reads tables other than those from which tokenizer and classes were made. Throws InputError for
/// a text or a class that the model does not know.
std::vector<Example> read_other_tables(const std::vector<std::string>& paths,
                                       const DataConfig& data, const Tokenizer& tokenizer,
                                       const std::vector<std::string>& classes, bool can_change) {
  auto table = read_labelled_texts(paths, data);
  table.for_each([&](const Example& example) {
    check_text(tokenizer, example.prompt, can_change);
    if (data.problem_type == ProblemType::regression) return;
    for (const auto& label : labels_of(example, data)) {
      if (std::ranges::find(classes, label) != classes.end()) continue;
      throw InputError(fmt::format("unknown class '{}', expected one of {}", printable(label),
                                   shortened(classes)));
    }
  });
  return std::move(table.examples);
}

/// Returns the number of texts of each class or label; also of the labels that have a column and no
/// texts.
std::map<std::string, int64_t> count_classes(const std::vector<Example>& examples,
                                             const DataConfig& data) {
  std::map<std::string, int64_t> counts;
  if (const auto columns = label_columns(data); columns.size() > 1) {
    for (const auto& column : columns) counts[column] = 0;
  }
  for (const auto& example : examples) {
    for (const auto& label : labels_of(example, data)) ++counts[label];
  }
  return counts;
}

/// Returns the range of the labels of a regression, and their mean, whose mean squared error a
/// model should fall below.
std::string number_summary(const std::vector<Example>& examples) {
  std::vector<double> numbers;
  for (const auto& example : examples) numbers.push_back(number_label(example.answer));
  const auto labels = torch::tensor(numbers, torch::kDouble);
  return fmt::format("{:.6g} to {:.6g}, mean {:.6g}, variance {:.6g}", labels.min().item<double>(),
                     labels.max().item<double>(), labels.mean().item<double>(),
                     labels.var(/*unbiased=*/false).item<double>());
}

/// Throws InputError for values that contradict `problem_type`.
void check_problem(const Recipe& recipe) {
  const auto& data = recipe.data;
  if (data.label_separator.empty()) throw InputError("label_separator is empty, expected a text");
  if (label_columns(data).empty())
    throw InputError(fmt::format("label_column is '{}', expected a name", data.label_column));
  const auto type = std::string(to_string(data.problem_type));
  if (data.problem_type == ProblemType::token_classification ||
      data.problem_type == ProblemType::masked_lm) {
    throw InputError(fmt::format(
        "problem_type {} is that of the task {}, found the task {}", type,
        data.problem_type == ProblemType::masked_lm ? "masked-lm" : "token-classification",
        recipe.task));
  }
  if (data.problem_type == ProblemType::single_label_classification) return;
  const auto expect = [&](const char* key, const std::string& found, bool holds,
                          const char* value) {
    if (holds) return;
    throw InputError(fmt::format("`{} = {}` has no effect with problem_type {}, expected {}", key,
                                 found, to_string(data.problem_type), value));
  };
  expect("class_weights", data.class_weights, data.class_weights == "none", "none");
  expect("label_smoothing", fmt::format("{}", recipe.training.label_smoothing),
         recipe.training.label_smoothing == 0.0, "0");
}

/// Returns a warning if the classes have fewer than `kMinTexts` texts on average, as in a column of
/// numbers or ids; std::nullopt otherwise, and for at most 10 classes.
std::optional<DataNote> few_texts_note(std::size_t num_classes, std::size_t num_texts,
                                       const std::string& label_column) {
  constexpr std::size_t kMinTexts = 3;
  if (num_classes <= 10 || num_texts >= kMinTexts * num_classes) return std::nullopt;
  return DataNote{"warning",
                  fmt::format("{} classes for {} texts: each different label is a class; if the "
                              "column '{}' contains numbers or ids, see --label-column and "
                              "--problem-type",
                              num_classes, num_texts, printable(label_column))};
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
    check_problem(recipe);
    const auto type = recipe.data.problem_type;
    const bool is_single = type == ProblemType::single_label_classification;
    auto table = read_labelled_texts(files_of(recipe), recipe.data);
    auto& examples = table.examples;
    checksum_ = checksum_of_files(recipe.text);
    const auto counts = count_classes(examples, recipe.data);
    if (type == ProblemType::regression) {
      classes_ = {recipe.data.label_column};
    } else {
      for (const auto& [name, count] : counts) classes_.push_back(name);
    }
    const auto source = paths_text(recipe.text);
    if (classes_.empty())
      throw InputError(fmt::format("{}: expected at least one label, found none", source));
    if (is_single && classes_.size() < 2) {
      throw InputError(fmt::format("{}: expected at least two classes, found only '{}'", source,
                                   classes_.front()));
    }
    std::string all;
    for (const auto& example : examples) all += example.prompt + "\n";
    const bool is_given = tokenizer != nullptr;
    tokenizer_ = tokenizer_for(recipe, all, std::move(tokenizer));
    if (is_given) {
      table.for_each(
          [&](const auto& each) { check_text(*tokenizer_, each.prompt, /*can_change=*/false); });
    }
    if (type == ProblemType::regression)
      notes_.push_back({"labels", number_summary(examples)});
    else
      notes_.push_back({is_single ? "classes" : "labels", class_counts(counts)});
    if (auto note = few_texts_note(classes_.size(), examples.size(), recipe.data.label_column);
        note && is_single)
      notes_.push_back(*std::move(note));
    if (const auto& val_text = recipe.data.val_text; !val_text.empty()) {
      const auto validation =
          read_other_tables(val_text, recipe.data, *tokenizer_, classes_, !is_given);
      checksum_ += "-" + checksum_of_files(val_text);
      set_examples(examples, validation);
      examples.insert(examples.end(), validation.begin(), validation.end());
    } else {
      with_source(source, [&] {
        set_examples(examples, recipe.data.val_fraction, recipe.data.stratify && is_single);
      });
    }
    if (is_single) {
      const auto num_texts = training().targets.bincount({}, std::ssize(classes_));  // (C)
      class_weights_ = train::class_weights(recipe.data.class_weights, num_texts);
    }
    if (class_weights_.defined())
      notes_.insert(notes_.begin() + 1, {"class weights", weights_text(class_weights_, classes_)});
    note_unusual_texts(examples);
    add_file_notes(recipe, notes_);
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::vector<std::string> classes() const override { return classes_; }
  Problem problem() const override { return problem_of(recipe_.data); }
  torch::Tensor class_weights() const override { return class_weights_; }
  std::string data_checksum() const override { return checksum_; }
  std::vector<DataNote> data_notes() const override { return notes_; }
  /// Truncated texts, as the model sees them.
  std::vector<Example> samples() const override {
    auto examples = ListedTask::samples();
    for (auto& example : examples) {
      const auto encoded = this->encoded(example);
      if (encoded.is_truncated()) example.prompt = tokenizer_->decode(encoded.tokens);
    }
    return examples;
  }

 protected:
  Batch rows(const std::vector<Example>& examples) const override {
    return rows_of(examples, recipe_, *tokenizer_, classes_);
  }

 private:
  EncodedText encoded(const Example& example) const {
    return encode_text(*tokenizer_, example.prompt, recipe_.max_seq_len(), recipe_.data.truncate);
  }

  /// Adds notes about truncated texts and texts without a known token.
  void note_unusual_texts(const std::vector<Example>& examples) {
    int64_t longest = 0;
    int64_t count = 0;
    int64_t num_unknown = 0;
    for (const auto& example : examples) {
      const auto encoded = this->encoded(example);
      longest = std::max(longest, encoded.num_tokens);
      count += encoded.is_truncated();
      num_unknown += all_unknown(*tokenizer_, encoded.tokens);
    }
    if (num_unknown > 0) {
      notes_.push_back({"unknown", fmt::format("{} of {} texts contain no token of the vocabulary; "
                                               "see --vocab-size",
                                               num_unknown, examples.size())});
    }
    if (count == 0) return;
    const bool right = recipe_.data.truncate == TruncationSide::right;
    notes_.push_back(
        {"truncated",
         fmt::format("{} of {} texts to their {} {} tokens (the longest has {}); see --max-seq-len "
                     "and --truncate {}",
                     count, examples.size(), right ? "first" : "last",
                     max_text_tokens(*tokenizer_, recipe_.max_seq_len()), longest,
                     right ? "left" : "right")});
  }

  Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> classes_;
  torch::Tensor class_weights_;  // (C), or undefined
  std::string checksum_;
  std::vector<DataNote> notes_;
};

std::vector<Batch> batches_of_table(const std::filesystem::path& path, const Recipe& recipe,
                                    const Tokenizer& tokenizer,
                                    const std::vector<std::string>& classes, int64_t size) {
  const auto examples =
      read_other_tables({path.string()}, recipe.data, tokenizer, classes, /*can_change=*/true);
  return split_rows(rows_of(examples, recipe, tokenizer, classes), size);
}

}  // namespace

TaskInfo labelled_lines_task() {
  return {
      .name = "labelled-lines",
      .summary = "class, labels or number of each text in a table (.csv, .tsv or .jsonl)",
      .defaults = LabelledLinesTask::defaults(),
      .make = make<LabelledLinesTask>,
      .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown", "text_column",
                    "label_column", "problem_type", "label_separator", "threshold", "truncate",
                    "class_weights", "stratify", "keep_carriage_returns"},
      .batches_of_file = batches_of_table};
}

}  // namespace attend::train
