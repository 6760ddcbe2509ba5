#include "sample_report.h"

#include "attend/models/generation.h"
#include "attend/train/answer.h"
#include "io/utf8.h"

#include <fmt/format.h>

namespace attend::app {
namespace {

std::string continuation(train::Model& model, const train::Task& task, const std::string& prompt,
                         int64_t seed) {
  const auto& tokenizer = task.tokenizer();
  const auto tokens =
      generate(train::model_as<LanguageModel>(model, "a continuation"), tokenizer.encode(prompt),
               {.max_new_tokens = 200,
                .sampling = {.temperature = 0.8},
                .seed = static_cast<uint64_t>(seed)})
          .tokens;
  return replace_invalid_utf8(prompt + tokenizer.decode(tokens)) + "\n";
}

std::string question(train::Model& model, const train::Task& task, const train::Example& example) {
  const auto found = train::answer(model, task.tokenizer(), task.classes(), example);
  const auto verdict =
      found == example.answer ? "correct" : fmt::format("expected {}", example.answer);
  // A truncated text of bytes may begin or end inside of a character.
  return fmt::format("  {} -> {}  ({})\n", replace_invalid_utf8(example.prompt), found, verdict);
}

}  // namespace

std::string sample_report(train::Model& model, const train::Task& task, int64_t seed) {
  std::string text;
  for (const auto& example : task.samples()) {
    text += example.answer.empty() ? continuation(model, task, example.prompt, seed)
                                   : question(model, task, example);
  }
  return text.empty() ? "" : "Samples from the validation set:\n" + text;
}

}  // namespace attend::app
