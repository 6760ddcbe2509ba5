#include "attend/io/vocabulary.h"
#include "attend/train/answer.h"
#include "attend/train/example_task.h"
#include "train/senses_grammar.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

std::vector<Example> examples_of(const std::vector<SenseSentence>& sentences) {
  std::vector<Example> examples;
  for (const auto& [words, sense] : sentences) examples.push_back({words, sense});
  return examples;
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
class SensesTask : public ListedTask {
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
    for (const auto* part : {&sentences.training, &sentences.validation}) {
      for (const auto& sentence : *part) {
        length_ = std::max(length_, std::ssize(vocabulary_.encode(sentence.words)));
      }
    }
    check_max_seq_len(recipe, length_);
    const auto validation = examples_of(sentences.validation);
    set_examples(examples_of(sentences.training), validation);
    probes_ = {validation[0].prompt, validation[1].prompt};
    // The sentences of a pair follow each other, and so do those with the same word.
    for (std::size_t i = 0; i < kSamples; ++i)
      samples_.push_back(validation[i * validation.size() / kSamples + i % 2]);
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  std::vector<Example> samples() const override { return samples_; }
  std::vector<std::string> probe_words() const override {
    return {"river", "clerk", "player", "candle", "oak"};
  }
  std::vector<std::string> probe_texts() const override { return probes_; }

 protected:
  /// Pads the sentences to equal length. Padding follows the last token, so causal attention masks
  /// it. Unlike in `continuation_rows`, the words of the sentence are targets too.
  Batch rows(const std::vector<Example>& examples) const override {
    const auto count = std::ssize(examples);
    auto tokens = torch::full({count, length_}, vocabulary_.id(kPadToken), torch::kLong);
    auto targets = torch::full({count, length_}, kIgnoreIndex, torch::kLong);
    auto answers = torch::zeros({count, length_}, torch::kBool);
    for (int64_t row = 0; row < count; ++row) {
      const auto& example = examples[static_cast<std::size_t>(row)];
      const auto words = torch::tensor(vocabulary_.encode(example.prompt), torch::kLong);  // (n)
      const int64_t n = words.size(0);
      tokens[row].narrow(0, 0, n).copy_(words);
      targets[row].narrow(0, 0, n - 1).copy_(words.narrow(0, 1, n - 1));
      targets[row][n - 1] = vocabulary_.id(example.answer);
      answers[row][n - 1] = true;
    }
    return {tokens, targets, answers};
  }

 private:
  static constexpr std::size_t kSamples = 5;

  Vocabulary vocabulary_;
  int64_t length_ = 0;  ///< of the longest sentence, in tokens
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
