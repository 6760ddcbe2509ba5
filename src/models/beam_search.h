#pragma once

#include "models/decoding_batch.h"
#include "models/generation_task.h"

#include <vector>

namespace attend {

/// Returns the sequence with the highest score of each row of `batch`.
std::vector<GeneratedSequence> beam_search(DecodingBatch& batch, const GenerationTask& task);

}  // namespace attend
