#include "attend/train/answer.h"

#include "attend/input_error.h"
#include "attend/train/evaluation.h"
#include "attend/train/example_task.h"
#include "attend/train/token_predictions.h"
#include "nn/check_eval.h"
#include "train/classifier_logits.h"
#include "train/problem_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/utils/rnn.h>

#include <span>
#include <utility>

namespace attend::train {
namespace {

const GenerationOptions kGreedy{.max_new_tokens = 200, .sampling = {.temperature = 0.0}};

/// Returns the logits of a classifier: (N, C), or (N, T, C) if it predicts tokens.
torch::Tensor class_logits(SequenceClassifier& model, const std::vector<torch::Tensor>& rows) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> masks;
  for (const auto& row : rows) masks.push_back(torch::ones_like(row, torch::kBool));
  const auto device = model->embedding->token->weight.device();
  const auto tokens = torch::nn::utils::rnn::pad_sequence(rows, /*batch_first=*/true).to(device);
  const auto mask = torch::nn::utils::rnn::pad_sequence(masks, /*batch_first=*/true);  // (N, T)
  return mask.all().item<bool>() ? model(tokens) : model(tokens, mask.to(device));
}

struct Answer {
  const Tokenizer& tokenizer;
  const std::vector<std::string>& classes;
  const Example& example;
  const std::vector<int64_t>& prompt;  ///< tokens of the prompt
  const Problem& problem;

  Sample operator()(LanguageModel& model) const {
    auto options = kGreedy;
    options.max_new_tokens = static_cast<int64_t>(tokenizer.encode(example.answer).size());
    return sample(generate(model, prompt, options).tokens);
  }
  Sample operator()(SequenceClassifier& model) const {
    check_eval("answer", *model);
    if (problem.type == ProblemType::token_classification) return tags(model);
    if (problem.type == ProblemType::masked_lm) return masked_tokens(model);
    // For data.truncate = left, the caller passes a truncated prompt.
    const auto tokens =
        encode_text(tokenizer, example.prompt, model->config.max_seq_len, TruncationSide::right)
            .tokens;
    const auto& rules = rules_of(problem.type);
    const auto logits = class_logits(model, {torch::tensor(tokens, torch::kLong)});
    const auto answer = rules.answer(rules.predictions(logits)[0].cpu(), classes, problem);
    return {example.prompt, answer, example.answer, prompt, {}};
  }
  Sample operator()(Seq2Seq& model) const {
    return sample(generate(model, prompt, answer_tokens(tokenizer), kGreedy).tokens);
  }

  Sample tags(SequenceClassifier& model) const {
    const auto words = example.words.empty() ? split_words(example.prompt) : example.words;
    auto encoded = encode_words(tokenizer, words, model->config.max_seq_len);
    const auto probabilities = tag_probabilities(model, {encoded}).front();  // (W, C)
    std::vector<std::string> names;
    for (int64_t i = 0; i < probabilities.size(0); ++i)
      names.push_back(rules_of(problem.type).answer(probabilities[i], classes, problem));
    return {example.prompt,
            fmt::format("{}", fmt::join(names, " ")),
            example.answer,
            std::move(encoded.tokens),
            {}};
  }
  Sample masked_tokens(SequenceClassifier& model) const {
    auto tokens = encode_masked(tokenizer, example.prompt);
    const auto best = mask_probabilities(model, tokens, *tokenizer.mask_token()).argmax(-1);  // (M)
    const auto* ids = best.const_data_ptr<int64_t>();
    return {example.prompt,
            tokenizer.decode({ids, ids + best.numel()}),
            example.answer,
            std::move(tokens),
            {}};
  }

  Sample sample(std::vector<int64_t> tokens) const {
    return {example.prompt, tokenizer.decode(tokens), example.answer, prompt, std::move(tokens)};
  }
};

void check_not_empty(const std::vector<int64_t>& tokens) {
  if (tokens.empty()) throw InputError("the text is empty, expected at least one token");
}

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

void for_each_logits(
    SequenceClassifier& model, const std::vector<std::vector<int64_t>>& rows,
    const std::function<void(std::size_t index, const torch::Tensor& logits)>& use) {
  std::vector<torch::Tensor> tokens;
  std::vector<int64_t> lengths;
  for (const auto& row : rows) {
    TORCH_CHECK_VALUE(!row.empty(), "text ", tokens.size(),
                      " has no tokens, expected at least one");
    tokens.push_back(torch::tensor(row, torch::kLong));
    lengths.push_back(std::ssize(row));
  }
  const auto order = torch::tensor(lengths, torch::kLong).argsort();  // (N)
  for (const auto& indices : order.split(kEvalBatchSize)) {
    const std::span all(indices.const_data_ptr<int64_t>(),
                        static_cast<std::size_t>(indices.numel()));
    std::vector<torch::Tensor> batch;
    for (const auto i : all) batch.push_back(tokens[static_cast<std::size_t>(i)]);
    const auto logits = class_logits(model, batch).to(torch::kCPU, torch::kFloat);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto row = logits[static_cast<int64_t>(i)];  // (C) or (T, C)
      const auto index = static_cast<std::size_t>(all[i]);
      use(index, model->config.predicts_tokens() ? row.narrow(0, 0, lengths[index]) : row);
    }
  }
}

SequenceTokens answer_tokens(const Tokenizer& tokenizer) {
  const auto id_of = [&](const char* token) { return tokenizer.encode(token).at(0); };
  return {.bos_token = id_of(kBosToken), .eos_token = id_of(kEosToken)};
}

std::vector<int64_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  auto tokens = tokenizer.encode(text);
  check_not_empty(tokens);
  return tokens;
}

EncodedText encode_prompt(const Tokenizer& tokenizer, const std::string& text, int64_t max_tokens,
                          TruncationSide side) {
  auto encoded = encode_text(tokenizer, text, max_tokens, side);
  check_not_empty(encoded.tokens);
  return encoded;
}

torch::Tensor class_probabilities(SequenceClassifier& model,
                                  std::vector<std::vector<int64_t>> texts, TruncationSide truncate,
                                  ProblemType type) {
  check_eval("class_probabilities", *model);
  TORCH_CHECK_VALUE(!texts.empty(), "texts: found none, expected at least one");
  for (auto& text : texts) text = truncated(std::move(text), model->config.max_seq_len, truncate);
  std::vector<torch::Tensor> logits(texts.size());
  for_each_logits(model, texts, [&](std::size_t i, const torch::Tensor& row) { logits[i] = row; });
  return rules_of(type).predictions(torch::stack(logits));  // (N, C)
}

torch::Tensor class_probabilities(SequenceClassifier& model, const Tokenizer& tokenizer,
                                  const std::string& text, TruncationSide truncate) {
  auto encoded = encode_prompt(tokenizer, text, model->config.max_seq_len, truncate);
  return class_probabilities(model, {std::move(encoded.tokens)}).squeeze(0);  // (C)
}

std::string answer(Model& model, const Tokenizer& tokenizer,
                   const std::vector<std::string>& classes, const Example& example,
                   const Problem& problem) {
  return answer_sample(model, tokenizer, classes, example, problem).output;
}

Sample answer_sample(Model& model, const Tokenizer& tokenizer,
                     const std::vector<std::string>& classes, const Example& example,
                     const Problem& problem) {
  // Words are encoded one by one, and masked tokens are not part of the text.
  const bool is_encoded =
      problem.type != ProblemType::token_classification && problem.type != ProblemType::masked_lm;
  auto prompt = example.prompt_tokens;
  if (is_encoded && prompt.empty()) prompt = encode_prompt(tokenizer, example.prompt);
  return std::visit(Answer{tokenizer, classes, example, prompt, problem}, model);
}

std::optional<bool> is_correct(const Sample& sample, const Problem& problem) {
  if (sample.expected.empty() || problem.type == ProblemType::regression) return std::nullopt;
  return sample.output == sample.expected;
}

std::vector<Sample> make_samples(Model& model, const Task& task, const SampleOptions& options) {
  const auto& tokenizer = task.tokenizer();
  std::vector<Sample> samples;
  for (const auto& example : task.samples()) {
    samples.push_back(
        example.answer.empty()
            ? continuation(model, tokenizer, example.prompt, options)
            : answer_sample(model, tokenizer, task.classes(), example, task.problem()));
  }
  return samples;
}

}  // namespace attend::train
