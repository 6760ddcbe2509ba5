#pragma once

/// Includes all headers of the CMake target attend::tokenizers: tokenizers of published models.

#include "attend/tokenizers/chat_template.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/tokenizers/text_tokenizer.h"
