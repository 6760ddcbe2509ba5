#include "attend/train/answer.h"

#include "attend/input_error.h"
#include "attend/train/example_batches.h"
#include "nn/check_eval.h"
#include "train/samples.h"

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
  const Example& example;
  const std::vector<int64_t>& prompt;  ///< tokens of the prompt

  Sample operator()(LanguageModel& model) const {
    auto options = kGreedy;
    options.max_new_tokens = static_cast<int64_t>(tokenizer.encode(example.answer).size());
    return sample(generate(model, prompt, options).tokens);
  }
  Sample operator()(SequenceClassifier& model) const {
    check_eval("answer", *model);
    // For data.truncate = left, the caller passes a truncated prompt.
    const auto predicted = class_logits(model, prompt, TruncationSide::right).argmax();
    const auto& name = classes.at(static_cast<std::size_t>(predicted.item<int64_t>()));
    return {example.prompt, name, example.answer, prompt, {}};
  }
  Sample operator()(Seq2Seq& model) const {
    return sample(generate(model, prompt, answer_tokens(tokenizer), kGreedy).tokens);
  }

  Sample sample(std::vector<int64_t> tokens) const {
    return {example.prompt, tokenizer.decode(tokens), example.answer, prompt, std::move(tokens)};
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
  return answer_sample(model, tokenizer, classes, example).output;
}

Sample answer_sample(Model& model, const Tokenizer& tokenizer,
                     const std::vector<std::string>& classes, const Example& example) {
  const auto prompt = encode(tokenizer, example.prompt);
  return std::visit(Answer{tokenizer, classes, example, prompt}, model);
}

}  // namespace attend::train
