#pragma once

#include "io/sentencepiece_module.h"

namespace attend {

/// Returns the SentencePiece module, which is loaded at the first call and never unloaded. Throws
/// std::runtime_error if the module or SentencePiece is missing, or if the program is built with
/// AddressSanitizer.
const SentencePieceModule& load_sentencepiece();

}  // namespace attend
