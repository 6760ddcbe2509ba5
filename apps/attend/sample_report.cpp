#include "sample_report.h"

#include "io/utf8.h"
#include "train/samples.h"

#include <fmt/format.h>

namespace attend::app {

std::string sample_report(train::Model& model, const train::Task& task, int64_t seed) {
  std::string text;
  for (const auto& [input, output, expected] : train::make_samples(model, task, {.seed = seed})) {
    // A truncated text of bytes may begin or end inside of a character.
    if (expected.empty()) {
      text += replace_invalid_utf8(input + output) + "\n";
    } else {
      text += fmt::format("  {} -> {}  ({})\n", replace_invalid_utf8(input), output,
                          output == expected ? "correct" : fmt::format("expected {}", expected));
    }
  }
  return text.empty() ? "" : "Samples from the validation set:\n" + text;
}

}  // namespace attend::app
