#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/train/model.h"
#include "attend/train/task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attend::train {

/// The output of a model for an example.
struct Sample {
  std::string input;     ///< prompt of the example
  std::string output;    ///< answer of the model; for an example without answer, the continuation
                         ///< of the prompt
  std::string expected;  ///< answer of the example; empty if it has none
  std::vector<int64_t> input_tokens;   ///< tokens of `input`
  std::vector<int64_t> output_tokens;  ///< tokens that the model generated; none for a classifier
};

/// Options of `make_samples`.
struct SampleOptions {
  int64_t max_new_tokens = 200;  ///< length of a continuation
  int64_t seed = 0;              ///< seed of a continuation, which is sampled with temperature 0.8
};

/// Returns the model's answer to the prompt of an example, with its tokens. Throws as `answer`.
ATTEND_API Sample answer_sample(Model& model, const Tokenizer& tokenizer,
                                const std::vector<std::string>& classes, const Example& example);

/// Returns the model's answers to the examples of `Task::samples`; see `answer`. The texts of a
/// byte tokenizer may be invalid UTF-8. Throws c10::ValueError if the model is in training mode,
/// and c10::Error if its logits are not finite.
///
///     for (const auto& sample : make_samples(run.model, *run.make_task(), {}))
///       std::cout << sample.input << " -> " << sample.output << "\n";
ATTEND_API std::vector<Sample> make_samples(Model& model, const Task& task,
                                            const SampleOptions& options);

}  // namespace attend::train
