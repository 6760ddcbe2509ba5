#pragma once

#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

namespace attend {

/// The floating-point operations that a model spends on a token of a sequence of `length` tokens,
/// forward, the mean over the sequence: what `FlopCounter` counts while the model runs on one, in
/// eval mode. So of experts only those are counted that the token goes through, and a sliding
/// window saves nothing, since the scores are computed and then masked. Throws c10::ValueError if
/// `length` is not in 1 .. the model's context.
///
///     flops_per_token(model, model->config.max_seq_len)
double flops_per_token(LanguageModel& model, int64_t length);

/// The same for a token of the sequence that is classified.
double flops_per_token(SequenceClassifier& model, int64_t length);

/// The same for a token of the target; source and target have `length` tokens each.
double flops_per_token(Seq2Seq& model, int64_t length);

}  // namespace attend
