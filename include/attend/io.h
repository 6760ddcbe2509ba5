#pragma once

/// Includes all headers of the CMake target attend::io: safetensors files and tokenizers.

#include "attend/io/byte_tokenizer.h"
#include "attend/io/check_json.h"
#include "attend/io/file_kind.h"
#include "attend/io/files.h"
#include "attend/io/load_weights.h"
#include "attend/io/safetensors.h"
#include "attend/io/safetensors_header.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tensor_info.h"
#include "attend/io/tensor_tree.h"
#include "attend/io/text_stream.h"
#include "attend/io/tokenizer.h"
#include "attend/io/tokenizers.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
