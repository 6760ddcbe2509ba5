#pragma once

#include "sentencepiece_module.h"

namespace attend::train {

/// The module, opened at the first call and never closed. Throws std::runtime_error if it, or
/// SentencePiece, is not there, or if the program has the address sanitizer in it.
const SentencePieceModule& load_sentencepiece();

}  // namespace attend::train
