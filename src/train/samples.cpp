#include "train/samples.h"

#include "attend/models/generation.h"
#include "train/model_answer.h"

#include <utility>

namespace attend::train {
namespace {

ModelAnswer continuation(Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                         const SampleOptions& options) {
  auto prompt_tokens = tokenizer.encode(prompt);
  auto tokens = generate(model_as<LanguageModel>(model, "a continuation"), prompt_tokens,
                         {.max_new_tokens = options.max_new_tokens,
                          .sampling = {.temperature = 0.8},
                          .seed = static_cast<uint64_t>(options.seed)})
                    .tokens;
  auto text = tokenizer.decode(tokens);
  return {std::move(text), std::move(prompt_tokens), std::move(tokens)};
}

}  // namespace

std::vector<Sample> make_samples(Model& model, const Task& task, const SampleOptions& options) {
  const auto& tokenizer = task.tokenizer();
  std::vector<Sample> samples;
  for (const auto& example : task.samples()) {
    auto output = example.answer.empty() ? continuation(model, tokenizer, example.prompt, options)
                                         : model_answer(model, tokenizer, task.classes(), example);
    samples.push_back({example.prompt, std::move(output.text), example.answer,
                       std::move(output.prompt_tokens), std::move(output.tokens)});
  }
  return samples;
}

}  // namespace attend::train
