#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "attend/models/generation.h"
#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>
#include <vector>

namespace attend::train {

/// Padding token of the tasks' vocabularies.
inline constexpr const char* kPadToken = "<pad>";
/// Start token of a Seq2Seq's target.
inline constexpr const char* kBosToken = "<begin>";
/// End token of a Seq2Seq's target.
inline constexpr const char* kEosToken = "<end>";

/// Returns the ids of the start and end token of a Seq2Seq's target. Throws InputError if the
/// tokenizer does not have these tokens.
ATTEND_API SequenceTokens answer_tokens(const Tokenizer& tokenizer);

/// Returns the model's most likely answer to the prompt of an example (greedy decoding): the name
/// of a class (SequenceClassifier), the target (Seq2Seq), or as many tokens as the expected answer
/// has (LanguageModel). Throws InputError if the prompt is empty or has a token that is not in the
/// vocabulary, and c10::ValueError if the model is in training mode.
///
///     answer(run.model, *run.tokenizer, run.classes, {"12+34=", "64."}) == "64."
ATTEND_API std::string answer(Model& model, const Tokenizer& tokenizer,
                              const std::vector<std::string>& classes, const Example& example);

}  // namespace attend::train
