#include "attend/train/answer.h"

#include "attend/input_error.h"
#include "attend/train/evaluation.h"
#include "attend/train/example_task.h"
#include "nn/check_eval.h"

#include <fmt/format.h>
#include <torch/nn/utils/rnn.h>

#include <span>
#include <utility>

namespace attend::train {
namespace {

const GenerationOptions kGreedy{.max_new_tokens = 200, .sampling = {.temperature = 0.0}};

/// Returns the logits (N, C) of a classifier.
torch::Tensor class_logits(SequenceClassifier& model, const std::vector<torch::Tensor>& rows) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> masks;
  for (const auto& row : rows) masks.push_back(torch::ones_like(row, torch::kBool));
  const auto device = model->head->weight.device();
  const auto tokens = torch::nn::utils::rnn::pad_sequence(rows, /*batch_first=*/true).to(device);
  const auto mask = torch::nn::utils::rnn::pad_sequence(masks, /*batch_first=*/true);  // (N, T)
  return mask.all().item<bool>() ? model(tokens) : model(tokens, mask.to(device));
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
    const auto tokens = truncated(prompt, model->config.max_seq_len, TruncationSide::right);
    const auto predicted = class_logits(model, {torch::tensor(tokens, torch::kLong)}).argmax();
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

Sample continuation(Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                    const SampleOptions& options) {
  auto prompt_tokens = tokenizer.encode(prompt);
  auto tokens = generate(model_as<LanguageModel>(model, "a continuation"), prompt_tokens,
                         {.max_new_tokens = options.max_new_tokens,
                          .sampling = {.temperature = 0.8},
                          .seed = static_cast<uint64_t>(options.seed)})
                    .tokens;
  return {prompt, tokenizer.decode(tokens), "", std::move(prompt_tokens), std::move(tokens)};
}

}  // namespace

SequenceTokens answer_tokens(const Tokenizer& tokenizer) {
  const auto id_of = [&](const char* token) { return tokenizer.encode(token).at(0); };
  return {.bos_token = id_of(kBosToken), .eos_token = id_of(kEosToken)};
}

std::vector<int64_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  auto tokens = tokenizer.encode(text);
  if (tokens.empty()) throw InputError("the text is empty, expected at least one token");
  return tokens;
}

torch::Tensor class_probabilities(SequenceClassifier& model,
                                  std::vector<std::vector<int64_t>> texts,
                                  TruncationSide truncate) {
  check_eval("class_probabilities", *model);
  TORCH_CHECK_VALUE(!texts.empty(), "texts: found none, expected at least one");
  std::vector<torch::Tensor> rows;
  std::vector<int64_t> lengths;
  for (auto& text : texts) {
    TORCH_CHECK_VALUE(!text.empty(), "text ", rows.size(), " has no tokens, expected at least one");
    rows.push_back(torch::tensor(truncated(std::move(text), model->config.max_seq_len, truncate),
                                 torch::kLong));
    lengths.push_back(rows.back().size(0));
  }
  // A batch contains texts of similar lengths, so that there is little padding.
  const auto order = torch::tensor(lengths, torch::kLong).argsort();  // (N)
  std::vector<torch::Tensor> logits;
  for (const auto& indices : order.split(kEvalBatchSize)) {
    std::vector<torch::Tensor> batch;
    for (const auto i :
         std::span(indices.const_data_ptr<int64_t>(), static_cast<std::size_t>(indices.numel())))
      batch.push_back(rows.at(static_cast<std::size_t>(i)));
    logits.push_back(class_logits(model, batch).to(torch::kCPU, torch::kFloat));
  }
  return torch::cat(logits).softmax(-1).index_select(0, order.argsort());  // (N, C)
}

torch::Tensor class_probabilities(SequenceClassifier& model, const Tokenizer& tokenizer,
                                  const std::string& text, TruncationSide truncate) {
  return class_probabilities(model, {encode_prompt(tokenizer, text)}, truncate).squeeze(0);  // (C)
}

std::string answer(Model& model, const Tokenizer& tokenizer,
                   const std::vector<std::string>& classes, const Example& example) {
  return answer_sample(model, tokenizer, classes, example).output;
}

Sample answer_sample(Model& model, const Tokenizer& tokenizer,
                     const std::vector<std::string>& classes, const Example& example) {
  const auto prompt = encode_prompt(tokenizer, example.prompt);
  return std::visit(Answer{tokenizer, classes, example, prompt}, model);
}

std::vector<Sample> make_samples(Model& model, const Task& task, const SampleOptions& options) {
  const auto& tokenizer = task.tokenizer();
  std::vector<Sample> samples;
  for (const auto& example : task.samples()) {
    samples.push_back(example.answer.empty()
                          ? continuation(model, tokenizer, example.prompt, options)
                          : answer_sample(model, tokenizer, task.classes(), example));
  }
  return samples;
}

}  // namespace attend::train
