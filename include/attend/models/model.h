#pragma once

#include "attend/api.h"
#include "attend/input_error.h"
#include "attend/models/language_model.h"
#include "attend/models/seq2seq.h"
#include "attend/models/sequence_classifier.h"

#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace attend {

/// The config of a model of any kind. In a recipe file, the key `model.kind` selects the kind.
using ModelConfig = std::variant<LanguageModelConfig, SequenceClassifierConfig, Seq2SeqConfig>;

/// A model of this library, of any kind, in the order of `ModelConfig`.
using Model = std::variant<LanguageModel, SequenceClassifier, Seq2Seq>;

/// Names of the kinds of models, in the order of `ModelConfig`.
inline constexpr std::array<std::string_view, 3> kModelKinds{"language_model",
                                                             "sequence_classifier", "seq2seq"};
static_assert(kModelKinds.size() == std::variant_size_v<ModelConfig>);
static_assert(kModelKinds.size() == std::variant_size_v<Model>);

/// Returns the name of the kind of model, one of `kModelKinds`.
inline std::string_view model_kind(const ModelConfig& config) {
  return kModelKinds.at(config.index());
}

/// Returns a new model. Throws c10::ValueError if a field of `config` is out of range.
///
///     auto model = make_model(LanguageModelConfig{.vocab_size = 65});
ATTEND_API Model make_model(const ModelConfig& config);

/// Returns the model as a module.
ATTEND_API torch::nn::Module& module_of(const Model& model);

/// Returns the model as a `Kind`. Throws InputError if the model is of another kind; the message
/// starts with `wanted_by`.
///
///     auto& language_model = model_as<LanguageModel>(run.model, "generate");
template <typename Kind>
Kind& model_as(Model& model, const std::string& wanted_by) {
  if (auto* kind = std::get_if<Kind>(&model)) return *kind;
  const auto wanted = kModelKinds.at(Model(Kind(nullptr)).index());
  throw InputError(wanted_by + " requires a " + std::string(wanted) + ", found a " +
                   std::string(kModelKinds.at(model.index())));
}

}  // namespace attend
