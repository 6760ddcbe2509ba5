#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>
#include <vector>

namespace attend::app {

/// Returns a line for each word of `Task::probe_words`. The line lists the 4 other tokens whose
/// embeddings have the largest cosine similarity to the word's embedding, and these similarities.
/// Returns an empty string if the task has no probe words.
std::string nearest_neighbors(train::Model& model, const train::Task& task);

/// Attention weights of the last token of a text.
struct LastTokenAttention {
  std::string text;
  std::string prediction;  ///< predicted next token
  std::vector<std::string> tokens = {};
  std::vector<double> weights = {};  ///< for each token, in the last layer, averaged over the heads
};

/// Returns the attention weights for each text of `Task::probe_texts`. Returns no weights if the
/// task has no probe texts or the model has no layers.
std::vector<LastTokenAttention> last_token_attention(train::Model& model, const train::Task& task);

/// Formats attention weights: a line for each text, and for each token a line with its weight and a
/// bar. With `colors`, the weights are shown on a background of 256 colors instead.
std::string attention_text(const std::vector<LastTokenAttention>& attention, bool colors);

}  // namespace attend::app
