#include "attend/train/samples.h"

#include "attend/models/generation.h"

#include <utility>

namespace attend::train {
namespace {

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
