#pragma once

#include "attend/models/sequence_classifier.h"
#include "attend/tokenizers/text_tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace attend {

/// Sets the pooling and the normalization of an encoder as the files of sentence-transformers in
/// `folder` say: `modules.json` and the `config.json` of the pooling. Mean pooling without them.
/// Returns the default prompt of `config_sentence_transformers.json`; empty if there is none.
/// Throws InputError if they contain an unsupported module, pooling or key.
std::string read_sentence_settings(const std::filesystem::path& folder,
                                   SequenceClassifierConfig& config);

/// Settings of the text of an encoder.
struct TextSettings {
  int64_t max_length;      ///< maximum number of tokens
  bool lowercase = false;  ///< lowercase the text before it becomes tokens
};

/// Returns the settings of `sentence_bert_config.json` or of a file with one of its older names. If
/// there is none, the maximum number of tokens is that of the tokenizer; it is at most that of the
/// model. Throws InputError if a key is not supported, or if a text of this length has no room for
/// the special tokens.
TextSettings read_text_settings(const std::filesystem::path& folder,
                                const SequenceClassifierConfig& config,
                                const TextTokenizer& tokenizer);

}  // namespace attend
