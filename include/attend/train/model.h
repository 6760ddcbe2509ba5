#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "attend/train/batch.h"
#include "attend/train/recipe.h"

namespace attend::train {

/// Makes the model that a recipe describes, with new weights. `vocab_size` is the number of tokens
/// in the vocabulary. `num_classes` is the number of classes; only a classifier uses it. Throws
/// InputError if values of the recipe's model contradict each other, for example if `embed_dim` is
/// not divisible by `num_heads`; the message names the recipe's keys of these values.
///
///     auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
ATTEND_API Model make_model(const Recipe& recipe, int64_t vocab_size, std::size_t num_classes = 0);

/// Returns the logits of a batch: (B, T, V) for a LanguageModel, (B, U, V) for a Seq2Seq, (B, C)
/// for a SequenceClassifier.
ATTEND_API torch::Tensor logits_of(Model& model, const Batch& batch);

/// Returns the weight of the token embedding (V, E); for a Seq2Seq, of the source embedding.
ATTEND_API torch::Tensor token_embedding_weight(const Model& model);

}  // namespace attend::train
