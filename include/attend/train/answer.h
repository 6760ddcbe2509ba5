#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/models/generation.h"
#include "attend/models/model.h"
#include "attend/train/example_task.h"
#include "attend/train/task.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::train {

/// Padding token. Only some vocabularies of tasks contain this token. With the other vocabularies,
/// tasks that need padding use the token of id 0.
inline constexpr const char* kPadToken = "<pad>";
/// First token of the decoder input of a Seq2Seq.
inline constexpr const char* kBosToken = "<begin>";
/// Last token of the target of a Seq2Seq.
inline constexpr const char* kEosToken = "<end>";

/// Returns the ids of `kBosToken` and `kEosToken`, which must be tokens of the tokenizer. Throws
/// InputError if the tokenizer cannot encode them.
ATTEND_API SequenceTokens answer_tokens(const Tokenizer& tokenizer);

/// Returns the tokens of a text. Throws InputError if the text is empty or has a token that is not
/// in the vocabulary.
ATTEND_API std::vector<int64_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text);

/// Does the same with at most `max_tokens` tokens; see `encode_text`.
ATTEND_API EncodedText encode_prompt(const Tokenizer& tokenizer, const std::string& text,
                                     int64_t max_tokens, TruncationSide side);

/// Returns the probability of each class or label of N texts, (N, C) float32 on the CPU, or for a
/// regression the number of each text, (N, 1). `texts`: the tokens
/// of each text, at least one text and one token. Tokens of a text with more than `max_seq_len`
/// tokens are removed from the side `truncate`. Throws c10::ValueError if the model is in training
/// mode, there are no texts, or a text has no tokens.
ATTEND_API torch::Tensor class_probabilities(SequenceClassifier& model,
                                             std::vector<std::vector<int64_t>> texts,
                                             TruncationSide truncate = TruncationSide::right,
                                             ProblemType type = {});

/// Returns the probability of each class of a text, (C) float32 on the CPU. Tokens of a text with
/// more than `max_seq_len` tokens are removed from the side `truncate`, see `encode_text`; for the
/// same predictions as in training, pass `DataConfig::truncate`. Throws InputError if the text is
/// empty or has a token that is not in the vocabulary, and c10::ValueError if the model is in
/// training mode.
///
///     auto probabilities = class_probabilities(classifier, *run.tokenizer, "so bad");
///     auto name = run.classes[probabilities.argmax().item<int64_t>()];
ATTEND_API torch::Tensor class_probabilities(SequenceClassifier& model, const Tokenizer& tokenizer,
                                             const std::string& text,
                                             TruncationSide truncate = TruncationSide::right);

/// Returns the model's answer to the prompt of an example. A SequenceClassifier answers with the
/// name of the most likely class. The other models generate text with greedy decoding. A
/// LanguageModel generates as many tokens as `example.answer` has. `problem`: what a
/// SequenceClassifier predicts; with several labels, their names are separated by commas. Throws
/// InputError if the prompt is empty or has a token that is not in the vocabulary, and
/// c10::ValueError if the model is in training mode.
///
///     // In the task `addition`, the last digit of the sum comes first: 46 is written as "64.".
///     answer(run.model, *run.tokenizer, run.classes, {"12+34=", "64."}) == "64."
ATTEND_API std::string answer(Model& model, const Tokenizer& tokenizer,
                              const std::vector<std::string>& classes, const Example& example,
                              const Problem& problem = {});

/// The output of a model for an example.
struct Sample {
  std::string input;     ///< prompt of the example
  std::string output;    ///< answer of the model; for an example without answer, the continuation
                         ///< of the prompt
  std::string expected;  ///< answer of the example; empty if it has none
  std::vector<int64_t> input_tokens;   ///< tokens of `input`
  std::vector<int64_t> output_tokens;  ///< tokens that the model generated; none for a classifier
};

/// Returns whether the output of a sample is the expected one; std::nullopt for a continuation, and
/// for a number, which is never exactly the expected one.
ATTEND_API std::optional<bool> is_correct(const Sample& sample, const Problem& problem = {});

/// Options of `make_samples`.
struct SampleOptions {
  int64_t max_new_tokens = 200;  ///< length of a continuation
  int64_t seed = 0;              ///< seed of a continuation, which is sampled with temperature 0.8
};

/// Returns the model's answer to the prompt of an example, with its tokens. Throws as `answer`.
ATTEND_API Sample answer_sample(Model& model, const Tokenizer& tokenizer,
                                const std::vector<std::string>& classes, const Example& example,
                                const Problem& problem = {});

/// Returns the model's answers to the examples of `Task::samples`; see `answer`. The texts of a
/// byte tokenizer may be invalid UTF-8. Throws c10::ValueError if the model is in training mode,
/// and c10::Error if its logits are not finite.
///
///     for (const auto& sample : make_samples(run.model, *run.make_task(), {}))
///       std::cout << sample.input << " -> " << sample.output << "\n";
ATTEND_API std::vector<Sample> make_samples(Model& model, const Task& task,
                                            const SampleOptions& options);

}  // namespace attend::train
