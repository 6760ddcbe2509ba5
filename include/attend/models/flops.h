#pragma once

#include "attend/api.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

namespace attend {

/// Returns the forward floating-point operations per token of a sequence of `length` tokens, as
/// counted by `FlopCounter` in eval mode. Only the experts that a token is routed to are counted.
/// All computed pairs of query and key are counted, masked or not, so a sliding window reduces the
/// count only for sequences so long that attention is computed in blocks (docs/long_sequences.md).
/// Throws c10::ValueError if `length` is not in [1, config.max_seq_len] or the model is in training
/// mode.
///
///     double flops = flops_per_token(model, model->config.max_seq_len);
ATTEND_API double flops_per_token(const LanguageModel& model, int64_t length);

/// Returns the forward floating-point operations per input token of a classifier; see above.
ATTEND_API double flops_per_token(const SequenceClassifier& model, int64_t length);

/// Returns the forward floating-point operations per target token; source and target have `length`
/// tokens each. See above.
ATTEND_API double flops_per_token(const Seq2Seq& model, int64_t length);

}  // namespace attend
