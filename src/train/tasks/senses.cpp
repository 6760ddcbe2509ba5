#include "attend/io/vocabulary.h"
#include "attend/train/answer.h"
#include "attend/train/example_task.h"
#include "train/senses_grammar.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

/// Pads the sentences to equal length. Padding follows the last token, so causal attention masks
/// it.
Batch to_batch(const std::vector<SenseSentence>& sentences, const Vocabulary& vocabulary,
               int64_t length) {
  const auto rows = static_cast<int64_t>(sentences.size());
  auto tokens = torch::full({rows, length}, vocabulary.id(kPadToken), torch::kLong);
  auto targets = torch::full({rows, length}, kIgnoreIndex, torch::kLong);
  auto answers = torch::zeros({rows, length}, torch::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const auto& sentence = sentences[static_cast<std::size_t>(row)];
    const auto words = torch::tensor(vocabulary.encode(sentence.words), torch::kLong);  // (n)
    const int64_t n = words.size(0);
    tokens[row].narrow(0, 0, n).copy_(words);
    targets[row].narrow(0, 0, n - 1).copy_(words.narrow(0, 1, n - 1));
    targets[row][n - 1] = vocabulary.id(sentence.sense);
    answers[row][n - 1] = true;
  }
  return {tokens, targets, answers};
}

int64_t max_length(const SenseSentences& sentences, const Vocabulary& vocabulary) {
  std::size_t length = 0;
  for (const auto* part : {&sentences.training, &sentences.validation}) {
    for (const auto& sentence : *part) {
      length = std::max(length, vocabulary.encode(sentence.words).size());
    }
  }
  return static_cast<int64_t>(length);
}

Vocabulary make_vocabulary(std::vector<std::string> tokens) {
  tokens.insert(tokens.begin(), kPadToken);
  return {TokenizerKind::word, std::move(tokens)};
}

/// Word sense disambiguation: sentences with one of eight words (bank, bat, spring, crane, match,
/// bark, seal, palm) whose meaning only the context determines:
///
///     the old boat drifted near the bank . bank   ->   bank=shore
///     the old clerk paid near the bank . bank     ->   bank=money
///
/// The model predicts each next token. After the full stop and the repeated word, it predicts the
/// sense. Both senses of a word are equally frequent, so a model without attention reaches only
/// 50 %. Training and validation sentences never overlap, and are the same for all seeds.
class SensesTask : public Task {
 public:
  /// Default recipe: one layer of width 64. The model trains in seconds on a CPU.
  static Recipe defaults() {
    Recipe recipe;
    // In a model with one layer, the attention weights show which words determine the sense.
    recipe.stack().num_layers = 1;
    recipe.stack().num_heads = 2;
    recipe.max_seq_len() = 16;
    return recipe;
  }

  /// The answer is a word such as "bank=shore".
  static bool ends_with_answer(const std::string& text) {
    return text.find('=', text.rfind(' ') + 1) != std::string::npos;
  }

  explicit SensesTask(const Recipe& recipe) : vocabulary_(TokenizerKind::word, {kPadToken}) {
    const auto sentences = make_sense_sentences();
    vocabulary_ = make_vocabulary(sentences.tokens);
    const int64_t length = max_length(sentences, vocabulary_);
    check_max_seq_len(recipe, length);
    training_ = to_batch(sentences.training, vocabulary_, length);
    probes_ = {sentences.validation[0].words, sentences.validation[1].words};
    // The sentences of a pair follow each other, and so do those with the same word.
    const auto& validation = sentences.validation;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const auto& sentence = validation[i * validation.size() / kSamples + i % 2];
      samples_.push_back({sentence.words, sentence.sense});
    }
    validation_ = to_batch(sentences.validation, vocabulary_, length);
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  Batch training_batch(int64_t size, Sampler& sampler) const override {
    return select_rows(training_, sampler.rows(training_.tokens.size(0), size));
  }
  std::vector<Batch> validation_batches(int64_t size) const override {
    return split_rows(validation_, size);
  }
  std::vector<Example> samples() const override { return samples_; }
  std::vector<std::string> probe_words() const override {
    return {"river", "clerk", "player", "candle", "oak"};
  }
  std::vector<std::string> probe_texts() const override { return probes_; }

 private:
  static constexpr std::size_t kSamples = 5;

  Vocabulary vocabulary_;
  Batch training_;
  Batch validation_;
  std::vector<Example> samples_;
  std::vector<std::string> probes_;
};

}  // namespace

TaskInfo senses_task() {
  return {.name = "senses",
          .summary = "which of two senses a word has in its sentence",
          .defaults = SensesTask::defaults(),
          .make = make<SensesTask>,
          .data_keys = {},
          .ends_with_answer = SensesTask::ends_with_answer};
}

}  // namespace attend::train
