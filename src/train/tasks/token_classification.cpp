#include "attend/input_error.h"
#include "attend/io/tokenizer.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/entities.h"
#include "attend/train/example_task.h"
#include "attend/train/loss.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/token_predictions.h"
#include "train/conll.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace attend::train {
namespace {

PlacedExamples read_sentences(const std::vector<std::string>& paths, const DataConfig& data) {
  PlacedExamples all{paths, {}, {}};
  for (std::size_t path = 0; path < paths.size(); ++path) {
    for (auto& [words, tags, line] : read_tagged_sentences(paths[path], data)) {
      Example example{.prompt = fmt::format("{}", fmt::join(words, " ")),
                      .answer = fmt::format("{}", fmt::join(tags, " "))};
      example.labels = std::move(tags);
      example.words = std::move(words);
      all.examples.push_back(std::move(example));
      all.places.emplace_back(path, line);
    }
  }
  return all;
}

/// Reads files other than those from which tokenizer and tags were made. Throws InputError for a
/// word or a tag that the model does not know.
std::vector<Example> read_other_sentences(const std::vector<std::string>& paths,
                                          const DataConfig& data, const Tokenizer& tokenizer,
                                          const std::vector<std::string>& tags, bool can_change) {
  auto sentences = read_sentences(paths, data);
  sentences.for_each([&](const Example& example) {
    check_text(tokenizer, example.prompt, can_change);
    for (const auto& tag : example.labels) {
      if (std::ranges::find(tags, tag) != tags.end()) continue;
      throw InputError(
          fmt::format("unknown tag '{}', expected one of {}", printable(tag), shortened(tags)));
    }
  });
  return std::move(sentences.examples);
}

Batch rows_of_sentences(const std::vector<Example>& examples, const Recipe& recipe,
                        const Tokenizer& tokenizer, const std::vector<std::string>& tags) {
  return tag_rows(examples,
                  {.tokenizer = tokenizer,
                   .padding = 0,
                   .length = recipe.max_seq_len(),
                   .truncate = TruncationSide::right},
                  tags);
}

/// A tag for each word of a sentence, such as those of named entities.
class TokenClassificationTask : public ListedTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.model = SequenceClassifierConfig{.pooling = Pooling::none};
    recipe.max_seq_len() = 128;
    recipe.stack().dropout = 0.1;
    recipe.data.problem_type = ProblemType::token_classification;
    recipe.data.text_column = kWordsColumn;
    recipe.data.label_column = kTagsColumn;
    recipe.data.tokenizer = TokenizerKind::word;
    recipe.data.vocab_size = 10000;
    recipe.training.max_steps = 1000;
    recipe.training.batch_size = 32;
    recipe.training.lr = 1e-3;
    return recipe;
  }

  TokenClassificationTask(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer)
      : recipe_(recipe) {
    auto sentences = read_sentences(files_of(recipe), recipe.data);
    auto& examples = sentences.examples;
    checksum_ = checksum_of_files(recipe.text);
    std::map<std::string, int64_t> counts;
    for (const auto& example : examples) {
      for (const auto& tag : example.labels) ++counts[tag];
    }
    for (const auto& [tag, count] : counts) tags_.push_back(tag);
    const auto source = paths_text(recipe.text);
    if (tags_.size() < 2) {
      throw InputError(fmt::format("{}: expected at least two tags, found only '{}'", source,
                                   printable(tags_.front())));
    }
    std::string all;
    for (const auto& example : examples) all += example.prompt + "\n";
    const bool is_given = tokenizer != nullptr;
    tokenizer_ = tokenizer_for(recipe, all, std::move(tokenizer));
    if (is_given) {
      sentences.for_each(
          [&](const auto& each) { check_text(*tokenizer_, each.prompt, /*can_change=*/false); });
    }
    notes_.push_back({"tags", class_counts(counts)});
    const auto& val_text = recipe.data.val_text;
    if (val_text.empty()) {
      with_source(source, [&] { set_examples(examples, recipe.data.val_fraction); });
    } else {
      const auto validation =
          read_other_sentences(val_text, recipe.data, *tokenizer_, tags_, !is_given);
      checksum_ += "-" + checksum_of_files(val_text);
      set_examples(examples, validation);
      examples.insert(examples.end(), validation.begin(), validation.end());
    }
    const auto& targets = training().targets;  // (N, T)
    class_weights_ = train::class_weights(
        recipe.data.class_weights,
        targets.masked_select(targets.ne(kIgnoreIndex)).bincount({}, std::ssize(tags_)));  // (C)
    if (class_weights_.defined())
      notes_.push_back({"class weights", weights_text(class_weights_, tags_)});
    note_truncated(examples);
    add_file_notes(recipe, notes_);
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  std::vector<std::string> classes() const override { return tags_; }
  Problem problem() const override {
    return {.type = ProblemType::token_classification, .tags = tags_};
  }
  torch::Tensor class_weights() const override { return class_weights_; }
  std::string data_checksum() const override { return checksum_; }
  std::vector<DataNote> data_notes() const override { return notes_; }

 protected:
  Batch rows(const std::vector<Example>& examples) const override {
    return rows_of_sentences(examples, recipe_, *tokenizer_, tags_);
  }

 private:
  void note_truncated(const std::vector<Example>& examples) {
    int64_t count = 0;
    std::size_t lost = 0;
    for (const auto& example : examples) {
      const auto& words = example.words;
      const auto kept = encode_words(*tokenizer_, words, recipe_.max_seq_len()).first_tokens.size();
      count += kept < words.size();
      lost += words.size() - kept;
    }
    if (count == 0) return;
    notes_.push_back(
        {"truncated", fmt::format("{} of {} sentences to their first {} tokens, "
                                  "without {} words; see --max-seq-len",
                                  count, examples.size(),
                                  max_text_tokens(*tokenizer_, recipe_.max_seq_len()), lost)});
  }

  Recipe recipe_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> tags_;
  torch::Tensor class_weights_;  // (C), or undefined
  std::string checksum_;
  std::vector<DataNote> notes_;
};

std::vector<Batch> batches_of_sentences(const std::filesystem::path& path, const Recipe& recipe,
                                        const Tokenizer& tokenizer,
                                        const std::vector<std::string>& tags, int64_t size) {
  const auto examples =
      read_other_sentences({path.string()}, recipe.data, tokenizer, tags, /*can_change=*/true);
  return split_rows(rows_of_sentences(examples, recipe, tokenizer, tags), size);
}

}  // namespace

TaskInfo token_classification_task() {
  return {.name = "token-classification",
          .summary = "tag of each word of a sentence (CoNLL, .csv or .jsonl), such as entities",
          .defaults = TokenClassificationTask::defaults(),
          .make = make<TokenClassificationTask>,
          .data_keys = {"val_fraction", "val_text", "tokenizer", "vocab_size", "unknown",
                        "text_column", "label_column", "class_weights"},
          .batches_of_file = batches_of_sentences};
}

}  // namespace attend::train
