#include "train/samples.h"

#include "attend/models/generation.h"
#include "attend/train/answer.h"

namespace attend::train {
namespace {

std::string continuation(Model& model, const Tokenizer& tokenizer, const std::string& prompt,
                         const SampleOptions& options) {
  const auto tokens =
      generate(model_as<LanguageModel>(model, "a continuation"), tokenizer.encode(prompt),
               {.max_new_tokens = options.max_new_tokens,
                .sampling = {.temperature = 0.8},
                .seed = static_cast<uint64_t>(options.seed)})
          .tokens;
  return tokenizer.decode(tokens);
}

}  // namespace

std::vector<Sample> make_samples(Model& model, const Task& task, const SampleOptions& options) {
  const auto& tokenizer = task.tokenizer();
  std::vector<Sample> samples;
  for (const auto& example : task.samples()) {
    samples.push_back({example.prompt,
                       example.answer.empty()
                           ? continuation(model, tokenizer, example.prompt, options)
                           : answer(model, tokenizer, task.classes(), example),
                       example.answer});
  }
  return samples;
}

}  // namespace attend::train
