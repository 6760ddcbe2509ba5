#pragma once

#include "attend/io/tokenizer.h"
#include "attend/models/generation.h"
#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>
#include <vector>

namespace attend::train {

/// Tokens of tasks: what fills short rows up, what a Seq2Seq begins its target with, and what tells
/// that an answer is complete.
inline constexpr const char* kPadding = "<pad>";
inline constexpr const char* kBegin = "<begin>";
inline constexpr const char* kEnd = "<end>";

/// Where the answers of a Seq2Seq begin and end. Throws InputError if the tokenizer has no such
/// tokens.
SequenceTokens answer_tokens(const Tokenizer& tokenizer);

/// What `model` thinks likeliest after the prompt of an example: of a classifier the name of the
/// class, of a Seq2Seq the target, of a LanguageModel as many tokens as the right answer has.
/// Throws InputError for a prompt that is empty or holds a token that is unknown.
///
///     answer(run.model, *run.tokenizer, run.classes, {"12+34=", "64."}) == "64."
std::string answer(Model& model, const Tokenizer& tokenizer,
                   const std::vector<std::string>& classes, const Example& example);

}  // namespace attend::train
