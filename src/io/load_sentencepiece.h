#pragma once

#include "io/sentencepiece_module.h"

namespace attend {

/// The module, opened at the first call and never closed. Throws std::runtime_error if it, or
/// SentencePiece, is not there, or if the program has the address sanitizer in it.
const SentencePieceModule& load_sentencepiece();

}  // namespace attend
