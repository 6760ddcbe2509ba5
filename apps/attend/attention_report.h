#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// Returns one line per probe word of the task: the words with the nearest token embeddings, by
/// cosine similarity. Empty if the task has no probe words.
std::string nearest_neighbors(train::Model& model, const train::Task& task);

/// Returns, for each probe text of the task, the attention weights of its last token: last layer,
/// mean over heads. Empty if the task has no probe texts or the model has no layers.
std::string last_token_attention(train::Model& model, const train::Task& task);

}  // namespace attend::app
