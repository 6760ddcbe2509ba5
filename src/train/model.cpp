#include "attend/train/model.h"

#include "attend/input_error.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

/// Sets the sizes that are not part of a recipe.
struct SetSizes {
  int64_t vocab_size;
  int64_t num_classes;

  void operator()(LanguageModelConfig& config) const { config.vocab_size = vocab_size; }
  void operator()(SequenceClassifierConfig& config) const {
    config.vocab_size = vocab_size;
    config.num_classes = num_classes;
  }
  void operator()(Seq2SeqConfig& config) const {
    config.source_vocab_size = vocab_size;
    config.target_vocab_size = vocab_size;
  }
};

struct Logits {
  const Batch& batch;

  torch::Tensor operator()(LanguageModel& model) const { return model(batch.tokens); }
  torch::Tensor operator()(SequenceClassifier& model) const {
    return model(batch.tokens, batch.key_mask);
  }
  torch::Tensor operator()(Seq2Seq& model) const {
    return model(batch.tokens, batch.decoder_tokens, batch.key_mask);
  }
};

}  // namespace

Model make_model(const Recipe& recipe, int64_t vocab_size, std::size_t num_classes) {
  try {
    auto config = recipe.model;
    std::visit(SetSizes{vocab_size, static_cast<int64_t>(num_classes)}, config);
    return attend::make_model(config);
  } catch (const c10::ValueError& error) {
    // The message contains names of config fields. The recipe's keys have the same names.
    throw InputError(error.what_without_backtrace());
  }
}

torch::Tensor token_embedding_weight(const Model& model) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, Seq2Seq>)
          return kind->source_embedding->token->weight;
        else
          return kind->embedding->token->weight;
      },
      model);
}

torch::Tensor logits_of(Model& model, const Batch& batch) {
  return std::visit(Logits{batch}, model);
}

}  // namespace attend::train
