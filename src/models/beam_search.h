#pragma once

#include "models/decoding_batch.h"
#include "models/generation_task.h"

#include <vector>

namespace attend {

/// Runs a beam search for each row of `batch`. For each search, returns the sequence with the
/// highest score.
std::vector<GeneratedSequence> beam_search(DecodingBatch& batch, const GenerationTask& task);

}  // namespace attend
