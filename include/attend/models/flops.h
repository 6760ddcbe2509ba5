#pragma once

#include "attend/api.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

namespace attend {

/// Runs a forward pass over one sequence of `length` tokens. Returns the number of floating-point
/// operations, as counted by `FlopCounter`, divided by `length`. Only the experts that a token is
/// routed to are counted. All attention scores that are computed are counted, even if they are
/// masked. A sliding window therefore reduces the count only if attention is computed in blocks of
/// queries: blocks skip the keys outside of the window. Blocks are used from 2048 tokens on, or
/// from 512 tokens on if `length` is more than twice the window. Throws c10::ValueError if `length`
/// is not between 1 and `config.max_seq_len` or if the model is in training mode.
///
///     double flops = flops_per_token(model, model->config.max_seq_len);
ATTEND_API double flops_per_token(const LanguageModel& model, int64_t length);

/// Runs a forward pass of a classifier over one sequence of `length` tokens. Returns the number of
/// floating-point operations divided by `length`, counted as for a `LanguageModel`.
ATTEND_API double flops_per_token(const SequenceClassifier& model, int64_t length);

/// Runs a forward pass of an encoder-decoder model with `length` source tokens and `length` target
/// tokens. Returns the number of floating-point operations of the whole model divided by `length`,
/// counted as for a `LanguageModel`.
ATTEND_API double flops_per_token(const Seq2Seq& model, int64_t length);

}  // namespace attend
