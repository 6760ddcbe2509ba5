#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// Returns a line for each word of `Task::probe_words`. The line lists the 4 other tokens whose
/// embeddings have the largest cosine similarity to the word's embedding, and these similarities.
/// Returns an empty string if the task has no probe words.
std::string nearest_neighbors(train::Model& model, const train::Task& task);

/// Returns, for each text of `Task::probe_texts`, the predicted next token and the attention
/// weights of the text's last token in the last layer, averaged over the heads. Returns an empty
/// string if the task has no probe texts or the model has no layers.
std::string last_token_attention(train::Model& model, const train::Task& task);

}  // namespace attend::app
