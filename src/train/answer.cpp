#include "attend/train/answer.h"

#include "attend/input_error.h"
#include "attend/train/example_batches.h"
#include "nn/check_eval.h"
#include "train/model_answer.h"

#include <fmt/format.h>

#include <utility>

namespace attend::train {
namespace {

const GenerationOptions kGreedy{.max_new_tokens = 200, .sampling = {.temperature = 0.0}};

std::vector<int64_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  auto tokens = tokenizer.encode(text);
  if (tokens.empty()) throw InputError("the text is empty, expected at least one token");
  return tokens;
}

/// Returns the logits (C) of a classifier.
torch::Tensor class_logits(SequenceClassifier& model, const std::vector<int64_t>& prompt,
                           TruncationSide truncate) {
  const torch::NoGradGuard no_grad;
  const auto tokens = truncated(prompt, model->config.max_seq_len, truncate);
  return model(torch::tensor(tokens, torch::kLong).to(model->head->weight.device()));
}

struct Answer {
  const Tokenizer& tokenizer;
  const std::vector<std::string>& classes;
  const std::vector<int64_t>& prompt;
  const std::string& expected;

  ModelAnswer operator()(LanguageModel& model) const {
    auto options = kGreedy;
    options.max_new_tokens = static_cast<int64_t>(tokenizer.encode(expected).size());
    return decoded(generate(model, prompt, options).tokens);
  }
  ModelAnswer operator()(SequenceClassifier& model) const {
    check_eval("answer", *model);
    // For data.truncate = left, the caller passes a truncated prompt.
    const auto predicted = class_logits(model, prompt, TruncationSide::right).argmax();
    return {classes.at(static_cast<std::size_t>(predicted.item<int64_t>())), prompt, {}};
  }
  ModelAnswer operator()(Seq2Seq& model) const {
    return decoded(generate(model, prompt, answer_tokens(tokenizer), kGreedy).tokens);
  }

  ModelAnswer decoded(std::vector<int64_t> tokens) const {
    auto text = tokenizer.decode(tokens);
    return {std::move(text), prompt, std::move(tokens)};
  }
};

}  // namespace

SequenceTokens answer_tokens(const Tokenizer& tokenizer) {
  const auto id_of = [&](const char* token) { return tokenizer.encode(token).at(0); };
  return {.bos_token = id_of(kBosToken), .eos_token = id_of(kEosToken)};
}

torch::Tensor class_probabilities(SequenceClassifier& model, const Tokenizer& tokenizer,
                                  const std::string& text, TruncationSide truncate) {
  check_eval("class_probabilities", *model);
  const auto logits = class_logits(model, encode(tokenizer, text), truncate);  // (C)
  return logits.to(torch::kCPU, torch::kFloat).softmax(-1);
}

std::string answer(Model& model, const Tokenizer& tokenizer,
                   const std::vector<std::string>& classes, const Example& example) {
  return model_answer(model, tokenizer, classes, example).text;
}

ModelAnswer model_answer(Model& model, const Tokenizer& tokenizer,
                         const std::vector<std::string>& classes, const Example& example) {
  const auto encoded = encode(tokenizer, example.prompt);
  return std::visit(Answer{tokenizer, classes, encoded, example.answer}, model);
}

}  // namespace attend::train
