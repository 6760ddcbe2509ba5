#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "io/json_fields.h"
#include "pretrained/weight_rows.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// A family of published models: the keys of its `config.json`, and the names of its weights.
struct ATTEND_API Architecture {
  const char* model_type;            ///< the value of the key model_type
  std::vector<std::string> classes;  ///< supported values of the key architectures
  std::string prefix;                ///< which names in a file may have, except those of a head
  /// Reads the keys of `config.json`. `class_name` is one of `classes`.
  ModelConfig (*read_config)(JsonFields& reader, const std::string& class_name);
  /// Returns all weights of the model.
  WeightRows (*weights)(const ModelConfig& config);
  /// Parts of names of tensors that the model does not have, such as constants.
  std::vector<std::string> ignored = {};
};

/// Maximum number of layers and of experts: a wrong `config.json` must not fill the memory.
inline constexpr int64_t kMaxCount = 1024;

/// Names of activations, as choices of `JsonFields::choice`.
inline constexpr std::array<std::pair<std::string_view, Activation>, 6> kActivations{
    {{"gelu", Activation::gelu},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"relu", Activation::relu},
     {"silu", Activation::silu},
     {"swish", Activation::silu}}};

/// Accepts the keys of any `config.json` that have no effect on the outputs of a model.
ATTEND_API void ignore_common_keys(JsonFields& reader);

/// Returns the options of rotary positions. Reads `rope_parameters` (transformers 5), or
/// `rope_theta`, `rope_scaling` and `partial_rotary_factor` (transformers 4). The defaults of theta
/// and of the rotated part of a head are those of the architecture.
ATTEND_API RotaryOptions read_rotary(JsonFields& reader, int64_t head_dim, double default_theta,
                                     double default_partial_rotary_factor = 1.0);

/// All supported architectures.
ATTEND_API const std::vector<Architecture>& architectures();

// Each function is in a file of its own.
ATTEND_API std::vector<Architecture> bert_architectures();
ATTEND_API std::vector<Architecture> gpt2_architectures();
ATTEND_API std::vector<Architecture> gpt_neox_architectures();
ATTEND_API std::vector<Architecture> llama_architectures();
ATTEND_API std::vector<Architecture> t5_architectures();

}  // namespace attend
