#pragma once

#include "attend/api.h"

namespace attend {

/// Base class of models whose output projection may share the weight of an embedding. `add_lora`
/// unties the embeddings of a model if its head is a target, since an adapter would otherwise
/// change the embedding, too. `remove_lora` ties them again if the weights are still equal.
///
///     add_lora(model, {.targets = {"head"}});  // model->config.tie_embeddings is now false
///     remove_lora(model);                      // true again
class ATTEND_API TiedEmbeddings {
 public:
  virtual ~TiedEmbeddings() = default;

  /// Gives a model with tied embeddings a linear layer `head`, which begins with the memory of the
  /// embedding's weight, and sets `config.tie_embeddings` to false. Does nothing for other models.
  virtual void untie_embeddings() = 0;
  /// Reverses `untie_embeddings`, if the weight of the head has no adapters and equals that of the
  /// embedding. Does nothing for models whose embeddings were never tied.
  virtual void retie_embeddings() = 0;
};

}  // namespace attend
