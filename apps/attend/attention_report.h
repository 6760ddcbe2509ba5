#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// A line for each probe word of the task with the words whose token embeddings are nearest to its
/// own (cosine similarity). Empty if the task has no probe words.
std::string nearest_neighbours(train::Model& model, const train::Task& task);

/// For each probe text of the task, how much its last token attends to each token before it: the
/// last layer's weights, the mean of its heads. Empty without probe texts or layers.
std::string last_token_attention(train::Model& model, const train::Task& task);

}  // namespace attend::app
