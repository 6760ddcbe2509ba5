#include "attend/models/prepare_for_inference.h"

#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"

namespace attend {

void prepare_for_inference(torch::nn::Module& module, WeightFormat format) {
  module.apply([format](torch::nn::Module& part) {
    if (const auto* linear = part.as<torch::nn::Linear>()) {
      prepare_weight(linear->weight, format);
    } else if (const auto* model = part.as<LanguageModel>()) {
      if (model->config.tie_embeddings) prepare_weight(model->embedding->token->weight, format);
    } else if (const auto* seq2seq = part.as<Seq2Seq>()) {
      if (seq2seq->config.tie_embeddings) {
        prepare_weight(seq2seq->target_embedding->token->weight, format);
      }
    }
  });
}

}  // namespace attend
