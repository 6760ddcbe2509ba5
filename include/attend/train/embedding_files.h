#pragma once

#include "attend/api.h"
#include "attend/models/model.h"

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace attend::train {

/// Names of the files that `write_embeddings` writes.
struct EmbeddingFiles {
  static constexpr const char* table = "embeddings.tsv";           ///< a row per token
  static constexpr const char* tokens = "metadata.tsv";            ///< a token per line
  static constexpr const char* config = "projector_config.pbtxt";  ///< for TensorBoard
};

/// Returns the weight of the token embedding (V, E); for a Seq2Seq, of the source embedding.
ATTEND_API torch::Tensor token_embedding_weight(const Model& model);

/// Writes token embeddings for the Embedding Projector: `embeddings.tsv` (one row per token),
/// `metadata.tsv` (one token per line) and `projector_config.pbtxt`. `tensorboard --logdir
/// DIRECTORY` reads all three files; projector.tensorflow.org reads the first two.
///
/// `table` (V, E) has any floating-point dtype and may be on any device. `tokens` has V strings. In
/// tokens, control characters, invalid UTF-8, and all white space except the space character are
/// written as escapes, for example `\n`, `\x07` or `\u00A0`. A backslash is doubled. Tokens that
/// are empty or contain only spaces are written in quotes, because the projector skips blank lines.
/// Throws c10::ValueError if `table` is not 2-D or the number of tokens is not V. Throws
/// std::runtime_error if a file cannot be written.
///
///     write_embeddings("runs/demo", model->embedding->token->weight, tokens);
ATTEND_API void write_embeddings(const std::filesystem::path& directory, const torch::Tensor& table,
                                 const std::vector<std::string>& tokens);

}  // namespace attend::train
