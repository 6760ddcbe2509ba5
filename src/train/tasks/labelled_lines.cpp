#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"
#include "attend/train/read_labelled_lines.h"
#include "attend/train/recipe_fields.h"
#include "train/checksum.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace attend::train {
namespace {

Batch rows_of(const std::vector<Example>& examples, const Recipe& recipe,
              const Tokenizer& tokenizer, const std::vector<std::string>& classes) {
  return classification_rows(examples,
                             {.tokenizer = tokenizer,
                              .padding = 0,
                              .length = recipe.max_seq_len(),
                              .truncate = recipe.data.truncate},
                             classes);
}

/// The rows of one or more tables.
struct Table {
  std::vector<std::string> paths;
  std::vector<Example> examples;
  std::vector<std::pair<std::size_t, int64_t>> places;  ///< index of the path, and line, per row

  /// Calls `use` with each example. If `use` throws InputError, the message names file and line.
  template <typename Use>
  void for_each(const Use& use) const {
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto& [path, line] = places[i];
      with_source(fmt::format("{}:{}", paths[path], line), [&] { use(examples[i]); });
    }
  }
};

Table read_tables(const std::vector<std::string>& paths, const DataConfig& data) {
  Table table{paths, {}, {}};
  for (std::size_t path = 0; path < paths.size(); ++path) {
    auto lines =
        read_labelled_lines(paths[path], {.text = data.text_column, .label = data.label_column},
                            data.max_text_bytes, text_encoding(data.tokenizer));
    for (std::size_t i = 0; i < lines.texts.size(); ++i) {
      table.examples.push_back({std::move(lines.texts[i]), std::move(lines.labels[i])});
      table.places.emplace_back(path, lines.line_numbers[i]);
    }
  }
  return table;
}

/// Throws InputError if the tokenizer cannot encode a text of a table. `can_change`: true if
/// another tokenizer may be chosen.
void check_text(const Tokenizer& tokenizer, const std::string& text, bool can_change) {
  changing_unknown_token(&UnknownTokenError::without_place, [&] {
    changing_unknown_token(
        can_change ? &UnknownTokenError::with_options : &UnknownTokenError::with_fixed_tokenizer,
        [&] { tokenizer.encode(text); });
  });
}

/// Returns the first names, such as "a, b, 490 more".
std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  const auto count = std::min(names.size(), kShown);
  const auto shown = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "));
  const auto more = names.size() - count;
  return printable(more == 0 ? shown : fmt::format("{}, {} more", shown, more));
}

/// Reads tables other than those from which tokenizer and classes were made. Throws InputError for
/// a text or a class that the model does not know.
std::vector<Example> read_other_tables(const std::vector<std::string>& paths,
                                       const DataConfig& data, const Tokenizer& tokenizer,
                                       const std::vector<std::string>& classes, bool can_change) {
  auto table = read_tables(paths, data);
  table.for_each([&](const Example& example) {
    check_text(tokenizer, example.prompt, can_change);
    if (std::find(classes.begin(), classes.end(), example.answer) != classes.end()) return;
    throw InputError(fmt::format("unknown class '{}', expected one of {}",
                                 printable(example.answer), shortened(classes)));
  });
  return std::move(table.examples);
}

std::string checksum_of_files(const std::vector<std::string>& paths) {
  uint32_t checksum = 0;
  for (const auto& path : paths) checksum = crc32c_of_file(path, checksum);
  return checksum_text(checksum);
}

std::uintmax_t size_of_files(const std::vector<std::string>& paths) {
  return std::accumulate(paths.begin(), paths.end(), std::uintmax_t{0}, [](auto sum, auto& path) {
    return sum + std::filesystem::file_size(path);
  });
}

/// Returns the number of texts of each class.
std::map<std::string, int64_t> count_classes(const std::vector<Example>& examples) {
  std::map<std::string, int64_t> counts;
  for (const auto& example : examples) ++counts[example.answer];
  return counts;
}

/// Returns the most frequent classes and the number of texts of each.
std::string class_counts(const std::map<std::string, int64_t>& classes) {
  std::vector<std::pair<int64_t, std::string>> counts;  // count, negated for sorting, and class
  for (const auto& [name, count] : classes) counts.emplace_back(-count, name);
  std::sort(counts.begin(), counts.end());
  std::vector<std::string> texts;
  for (const auto& [count, name] : counts) texts.push_back(fmt::format("{} ({})", name, -count));
  return fmt::format("{}: {}", counts.size(), shortened(texts));
}

/// Returns a warning if the classes have fewer than `kMinTexts` texts on average, as in a column of
/// numbers or ids; std::nullopt otherwise, and for at most 10 classes.
std::optional<DataNote> few_texts_note(std::size_t num_classes, std::size_t num_texts,
                                       const std::string& label_column) {
  constexpr std::size_t kMinTexts = 3;
  if (num_classes <= 10 || num_texts >= kMinTexts * num_classes) return std::nullopt;
  return DataNote{"warning",
                  fmt::format("{} classes for {} texts: each different label is a class; if the "
                              "column '{}' contains numbers or ids, see --label-column",
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
    auto table = read_tables(files_of(recipe), recipe.data);
    auto& examples = table.examples;
    checksum_ = checksum_of_files(recipe.text);
    const auto counts = count_classes(examples);
    for (const auto& [name, count] : counts) classes_.push_back(name);
    const auto source = paths_text(recipe.text);
    if (classes_.size() < 2) {
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
    notes_.push_back({"classes", class_counts(counts)});
    if (auto note = few_texts_note(classes_.size(), examples.size(), recipe.data.label_column))
      notes_.push_back(*std::move(note));
    if (const auto& val_text = recipe.data.val_text; !val_text.empty()) {
      const auto validation =
          read_other_tables(val_text, recipe.data, *tokenizer_, classes_, !is_given);
      checksum_ += "-" + checksum_of_files(val_text);
      set_examples(examples, validation);
      examples.insert(examples.end(), validation.begin(), validation.end());
    } else {
      with_source(source, [&] { set_examples(examples, recipe.data.val_fraction); });
    }
    note_unusual_texts(examples);
    notes_.push_back(files_note("text", recipe.text, size_of_files(recipe.text)));
    if (const auto& val_text = recipe.data.val_text; !val_text.empty())
      notes_.push_back(files_note("val text", val_text, size_of_files(val_text)));
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
  /// Adds notes about truncated texts and texts without a known token.
  void note_unusual_texts(const std::vector<Example>& examples) {
    std::size_t longest = 0;
    int64_t count = 0;
    int64_t num_unknown = 0;
    for (const auto& example : examples) {
      const auto tokens = tokenizer_->encode(example.prompt);
      longest = std::max(longest, tokens.size());
      count += static_cast<int64_t>(tokens.size()) > recipe_.max_seq_len();
      num_unknown += all_unknown(*tokenizer_, tokens);
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
  const auto examples =
      read_other_tables({path.string()}, recipe.data, tokenizer, classes, /*can_change=*/true);
  return split_rows(rows_of(examples, recipe, tokenizer, classes), size);
}

}  // namespace

TaskInfo labelled_lines_task() {
  return {.name = "labelled-lines",
          .summary = "class of each text in a table (.csv, .tsv or .jsonl)",
          .defaults = LabelledLinesTask::defaults(),
          .make = make<LabelledLinesTask>,
          .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown",
                        "text_column", "label_column", "truncate"},
          .batches_of_file = batches_of_table};
}

}  // namespace attend::train
