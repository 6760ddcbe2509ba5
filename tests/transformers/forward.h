#pragma once

#include "attend/models/model.h"
#include "support/rounding.h"

#include <map>
#include <string>

namespace attend {

/// A visitor for the variant Model. Returns the outputs that transformers_test.py computes: hidden
/// states (B, T, E) and logits, without padding.
struct Forward {
  const std::map<std::string, torch::Tensor>& tensors;
  const torch::Tensor& tokens = tensors.at("tokens");
  const torch::Tensor& key_mask = tensors.at("key_mask");

  Tensors operator()(LanguageModel& model) const {
    const auto hidden = model->decoder->forward(model->embedding->forward(tokens),
                                                {.key_mask = key_mask, .causal = true});
    return {without_padding(hidden),
            without_padding(model->forward(tokens, {.key_mask = key_mask}))};
  }
  Tensors operator()(Seq2Seq& model) const {
    return {without_padding(model->encode(tokens, key_mask)),
            model->forward(tokens, tensors.at("target"), key_mask)};
  }
  Tensors operator()(SequenceClassifier& model) const {
    const bool has_types = model->config.type_vocab_size > 0;
    const auto types = has_types ? tensors.at("token_types") : torch::Tensor();
    const auto embedded = model->embedding->forward(tokens, /*positions=*/{}, types);
    const auto logits = model->forward(tokens, key_mask, types);
    return {without_padding(model->encoder->forward(embedded, {.key_mask = key_mask})),
            model->config.predicts_tokens() ? without_padding(logits) : logits};
  }

  torch::Tensor without_padding(const torch::Tensor& x) const {
    return x.masked_fill(key_mask.logical_not().unsqueeze(-1), 0.0);
  }
};

}  // namespace attend
