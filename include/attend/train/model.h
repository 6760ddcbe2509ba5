#pragma once

#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"
#include "attend/train/batch.h"
#include "attend/train/recipe.h"

#include <variant>

namespace attend::train {

/// A model of any kind that a task can train.
using Model = std::variant<LanguageModel, SequenceClassifier, Seq2Seq>;

/// The model that a recipe describes, with fresh weights, for so many tokens and, if it is a
/// classifier, so many classes. Seeds LibTorch's global generator with the recipe's seed and draws
/// the weights from it.
///
///     auto model = make_model(recipe, task->tokenizer().size(), task->classes().size());
Model make_model(const Recipe& recipe, int64_t vocabulary, std::size_t classes = 0);

torch::nn::Module& module_of(const Model& model);

/// The scores of all that the batch's targets choose from: targets' shape and V, or C of a
/// classifier.
torch::Tensor logits_of(Model& model, const Batch& batch);

/// The embedding of tokens (V, E); of a Seq2Seq that of its source.
torch::Tensor token_embedding_weight(const Model& model);

/// The model of one kind. Throws InputError, naming what was wanted, for a model of another kind.
///
///     auto& language_model = model_as<LanguageModel>(run.model, "generate");
template <typename Kind>
Kind& model_as(Model& model, const char* wanted_by);

}  // namespace attend::train
