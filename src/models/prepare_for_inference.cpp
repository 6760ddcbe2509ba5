#include "attend/models/prepare_for_inference.h"

#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"

namespace attend {

int64_t prepare_for_inference(ModuleRef module, WeightFormat format) {
  int64_t copies = 0;
  const auto prepare = [&](const torch::Tensor& weight) {
    if (prepare_weight(weight, format)) ++copies;
  };
  module->apply([&](torch::nn::Module& part) {
    if (const auto* linear = part.as<torch::nn::Linear>()) {
      prepare(linear->weight);
    } else if (const auto* model = part.as<LanguageModel>()) {
      if (model->config.tie_embeddings) prepare(model->embedding->token->weight);
    } else if (const auto* seq2seq = part.as<Seq2Seq>()) {
      if (seq2seq->config.tie_embeddings) prepare(seq2seq->target_embedding->token->weight);
    }
  });
  return copies;
}

}  // namespace attend
