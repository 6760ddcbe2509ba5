#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace attend::train {

/// The files that `write_embeddings` writes.
struct EmbeddingFiles {
  static constexpr const char* table = "embeddings.tsv";
  static constexpr const char* tokens = "metadata.tsv";
  static constexpr const char* config = "projector_config.pbtxt";
};

/// Writes the vectors of tokens for the Embedding Projector: `embeddings.tsv`, a row a token,
/// `metadata.tsv`, a token a line, and `projector_config.pbtxt`, by which
/// `tensorboard --logdir DIRECTORY` finds both; projector.tensorflow.org takes the first two.
///
/// `table` (V, E) of any floating-point dtype on any device, `tokens` V of them. A token stands as
/// it is, except that the projector shows each on one line and passes over empty ones: control
/// characters, white space other than the plain space, and bytes that are not UTF-8 are escaped
/// (`\n`, `\t`, `\r`, `\x07`, `\u00A0`), a backslash is doubled, and a token of nothing but spaces
/// stands in quotation marks. Throws c10::ValueError if table and tokens do not fit,
/// std::runtime_error if a file cannot be written.
///
///     write_embeddings("runs/demo", model->embedding->token->weight, tokens);
void write_embeddings(const std::filesystem::path& directory, const torch::Tensor& table,
                      const std::vector<std::string>& tokens);

}  // namespace attend::train
