#include "attend/models/model.h"

namespace attend {
namespace {

struct MakeModel {
  Model operator()(const LanguageModelConfig& config) const { return LanguageModel(config); }
  Model operator()(const SequenceClassifierConfig& config) const {
    return SequenceClassifier(config);
  }
  Model operator()(const Seq2SeqConfig& config) const { return Seq2Seq(config); }
};

}  // namespace

Model make_model(const ModelConfig& config) {
  return std::visit(MakeModel(), config);
}

torch::nn::Module& module_of(const Model& model) {
  return std::visit([](const auto& kind) -> torch::nn::Module& { return *kind.ptr(); }, model);
}

}  // namespace attend
