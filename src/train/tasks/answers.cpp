#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/answer_lengths.h"
#include "attend/train/example_task.h"
#include "attend/train/read_table.h"
#include "attend/train/recipe_fields.h"
#include "train/checksum.h"
#include "train/tasks/answer_format.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

/// Ends each answer, unless the tokenizer is that of a published model, which has an own token.
constexpr const char* kEndOfAnswer = "\n";

/// Prompts and answers in the columns of tables.
class TableFormat : public AnswerFormat {
 public:
  explicit TableFormat(const DataConfig& data) : data_(data) {}

  std::vector<Example> read(const std::vector<std::string>& paths, const Tokenizer* tokenizer,
                            bool can_change) const override {
    const auto encoding = text_encoding(data_.tokenizer);
    const std::vector<TableColumn> columns{
        {.name = data_.prompt_column, .option = "prompt_column", .encoding = encoding},
        {.name = data_.answer_column, .option = "answer_column", .encoding = encoding}};
    std::vector<Example> examples;
    for (const auto& path : paths) {
      auto table = read_table(path, columns, data_.max_text_bytes);
      for (std::size_t i = 0; i < table.line_numbers.size(); ++i) {
        examples.push_back({with_line_breaks(std::move(table.columns[0][i]), data_),
                            with_line_breaks(std::move(table.columns[1][i]), data_)});
        if (tokenizer == nullptr) continue;
        const auto text = examples.back().prompt + examples.back().answer;
        with_source(fmt::format("{}:{}", path, table.line_numbers[i]),
                    [&] { check_text(*tokenizer, text, can_change); });
      }
    }
    return examples;
  }

  /// The text of prompt and answer is encoded at once, as a model reads it, so a token that
  /// contains the end of the prompt and the start of the answer belongs to the answer.
  std::vector<PackedExample> encode(const Example& example,
                                    const Tokenizer& tokenizer) const override {
    const auto prompt = tokenizer.encode(example.prompt);
    auto tokens = tokenizer.encode(example.prompt + example.answer);
    const auto [same, other] =
        std::mismatch(prompt.begin(), prompt.end(), tokens.begin(), tokens.end());
    std::vector<bool> is_answer(static_cast<std::size_t>(same - prompt.begin()), false);
    const auto end = end_of_answer(tokenizer);  // which the tokenizer may have added
    if (end.empty() || tokens.empty() || tokens.back() != end.back())
      tokens.insert(tokens.end(), end.begin(), end.end());
    is_answer.resize(tokens.size(), true);
    return {{std::move(tokens), std::move(is_answer)}};
  }

 private:
  static std::vector<int64_t> end_of_answer(const Tokenizer& tokenizer) {
    const auto* published = dynamic_cast<const PublishedTokenizer*>(&tokenizer);
    if (published == nullptr) return tokenizer.encode(kEndOfAnswer);
    const auto& tokens = published->model().eos_tokens;
    return {tokens.begin(), tokens.begin() + (tokens.empty() ? 0 : 1)};
  }

  DataConfig data_;
};

std::unique_ptr<AnswerFormat> format_of(const DataConfig& data, const Tokenizer* tokenizer) {
  if (data.messages_column.empty()) return std::make_unique<TableFormat>(data);
  const DataConfig defaults;
  if (data.prompt_column != defaults.prompt_column || data.answer_column != defaults.answer_column)
    throw InputError(fmt::format(
        "`prompt_column` is '{}' and `answer_column` is '{}', which have no effect with "
        "`messages_column`",
        data.prompt_column, data.answer_column));
  return chat_format(data, tokenizer);
}

AnswerRows packed(const std::vector<Example>& examples, const AnswerFormat& format,
                  const Recipe& recipe, const Tokenizer& tokenizer) {
  AnswerRows rows(recipe.max_seq_len());
  for (const auto& example : examples) {
    for (auto& sequence : format.encode(example, tokenizer)) rows.add(std::move(sequence));
  }
  return rows;
}

/// Answers to prompts or in chats. The loss is that of the answers.
class AnswersTask : public ListedTask {
 public:
  static Recipe defaults() {
    auto recipe = text_task().defaults;
    recipe.max_seq_len() = 256;
    recipe.training.batch_size = 8;
    return recipe;
  }

  AnswersTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : recipe_(recipe), format_(format_of(recipe.data, tokenizer.get())) {
    const bool is_given = tokenizer != nullptr;
    const auto& paths = files_of(recipe);
    const auto examples = format_->read(paths, tokenizer.get(), /*can_change=*/false);
    std::string all;
    if (!is_given) {
      for (const auto& example : examples) all += example.prompt + example.answer + kEndOfAnswer;
    }
    tokenizer_ = tokenizer_for(recipe, all, std::move(tokenizer));
    checksum_ = checksum_of_files(paths);
    const auto& val_text = recipe.data.val_text;
    if (val_text.empty()) {
      with_source(paths_text(paths), [&] { set_examples(examples, recipe.data.val_fraction); });
    } else {
      const auto validation = format_->read(val_text, tokenizer_.get(), !is_given);
      checksum_ += "-" + checksum_of_files(val_text);
      set_examples(examples, validation);
    }
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::string data_checksum() const override { return checksum_; }
  std::vector<DataNote> data_notes() const override {
    std::vector<DataNote> notes{{"examples", fmt::format("{} with {} tokens of answers",
                                                         lengths_.examples, lengths_.targets)}};
    if (!lengths_.all_fit())
      notes.push_back({"truncated", lengths_.text(recipe_.max_seq_len()) + "; see --max-seq-len"});
    return notes;
  }
  std::vector<Example> samples() const override {
    auto samples = ListedTask::samples();
    for (auto& sample : samples) sample = format_->sample(sample, *tokenizer_);
    std::erase_if(samples, [](const Example& sample) { return sample.prompt.empty(); });
    return samples;
  }

 protected:
  /// Called for the training data, then for the validation data.
  Batch rows(const std::vector<Example>& examples) const override {
    const bool is_validation = lengths_.examples > 0;
    const auto make = [&] {
      const auto found = packed(examples, *format_, recipe_, *tokenizer_);
      lengths_ += found.lengths();
      return found.rows();
    };
    if (recipe_.data.val_text.empty()) return make();
    return with_source(paths_text(is_validation ? recipe_.data.val_text : recipe_.text), make);
  }

 private:
  Recipe recipe_;
  std::unique_ptr<AnswerFormat> format_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string checksum_;
  mutable AnswerLengths lengths_;  // of all data
};

AnswerRows rows_of_file(const std::filesystem::path& path, const Recipe& recipe,
                        const Tokenizer& tokenizer) {
  const auto format = format_of(recipe.data, &tokenizer);
  return packed(format->read({path.string()}, &tokenizer, /*can_change=*/true), *format, recipe,
                tokenizer);
}

std::vector<Batch> batches_of_answers(const std::filesystem::path& path, const Recipe& recipe,
                                      const Tokenizer& tokenizer, const std::vector<std::string>&,
                                      int64_t size) {
  const auto rows = rows_of_file(path, recipe, tokenizer);
  return split_rows(with_source(path.string(), [&] { return rows.rows(); }), size);
}

}  // namespace

AnswerLengths answer_lengths(const std::filesystem::path& path, const Recipe& recipe,
                             const Tokenizer& tokenizer) {
  return rows_of_file(path, recipe, tokenizer).lengths();
}

TaskInfo answers_task() {
  return {
      .name = "answers",
      .summary = "answer to each prompt in a table (.csv, .tsv or .jsonl), or in chats",
      .defaults = AnswersTask::defaults(),
      .make = make<AnswersTask>,
      .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown",
                    "prompt_column", "answer_column", "messages_column", "keep_carriage_returns"},
      .batches_of_file = batches_of_answers,
      .eos_token = kEndOfAnswer};
}

}  // namespace attend::train
