#pragma once

#include "attend/models/sequence_classifier.h"
#include "attend/tokenizers/text_tokenizer.h"

#include <filesystem>

namespace attend {

/// Sets the pooling and the normalization of an encoder as the files of sentence-transformers in
/// `folder` say: `modules.json` and the `config.json` of the pooling. Mean pooling without them.
/// Throws InputError if they contain an unsupported module or pooling.
void read_sentence_settings(const std::filesystem::path& folder, SequenceClassifierConfig& config);

/// Returns the maximum number of tokens of a text: that of `sentence_bert_config.json` or, if there
/// is none, of the tokenizer; at most that of the model.
int64_t max_text_length(const std::filesystem::path& folder, const SequenceClassifierConfig& config,
                        const TextTokenizer& tokenizer);

}  // namespace attend
