#pragma once

#include "attend/api.h"
#include "attend/models/model.h"
#include "pretrained/config_keys.h"
#include "pretrained/weight_rows.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// A family of published models: the keys of its `config.json`, and the names of its weights.
struct ATTEND_API Architecture {
  const char* model_type;            ///< the value of the key model_type
  std::vector<std::string> classes;  ///< supported values of the key architectures
  std::string prefix;                ///< which names in a file may have, except those of a head
  std::string head;                  ///< begin of the names of a head in a file
  std::string lm_head = {};          ///< the same for the head of a masked language model
  ModelConfig base;                  ///< options without a key, which all models of the family have
  /// Reads or writes the keys of `config.json`. `config`: a copy of `base` when reading.
  void (*declare)(ConfigKeys& keys, ModelConfig& config);
  /// Returns all weights of the model.
  WeightRows (*weights)(const ModelConfig& config);
  /// Parts of names of tensors that the model does not have, such as constants.
  std::vector<std::string> ignored = {};
  /// The token that positions skip, also inside of a text. The models of this library count
  /// positions from the first token on, so texts must not contain it. -1 = none.
  int64_t padding_token = -1;
};

/// End of the names of classes with a classifier of sequences.
inline constexpr std::string_view kClassification = "ForSequenceClassification";
/// End of the names of classes with a classifier of tokens.
inline constexpr std::string_view kTokenClassification = "ForTokenClassification";
/// End of the names of masked language models.
inline constexpr std::string_view kMaskedLm = "ForMaskedLM";

/// Maximum number of layers and of experts: a wrong `config.json` must not fill the memory.
inline constexpr int64_t kMaxCount = 1024;

/// Accepts the keys of any `config.json` that have no effect on the outputs of a model.
ATTEND_API void ignore_common_keys(JsonFields& reader);

/// Reads or writes the options of rotary positions. Reads `rope_parameters` (transformers 5), or
/// `rope_theta`, `rope_scaling` and `partial_rotary_factor` (transformers 4), and writes all of
/// them. The defaults of theta and of the rotated part of a head are those of the architecture;
/// nullopt if its class in transformers ignores `partial_rotary_factor` and rotates the whole head.
ATTEND_API void declare_rotary(ConfigKeys& keys, RotaryOptions& options, int64_t head_dim,
                               int64_t max_seq_len, double default_theta,
                               std::optional<double> default_partial_rotary_factor);

/// Returns the part of a head that is rotated: a number whose product with `head_dim` is rounded
/// down to `rotary_dim`. 0 channels mean all.
ATTEND_API double partial_rotary_factor(int64_t rotary_dim, int64_t head_dim);

/// All supported architectures.
ATTEND_API const std::vector<Architecture>& architectures();

// Each function is in a file of its own.
ATTEND_API std::vector<Architecture> bert_architectures();
ATTEND_API std::vector<Architecture> gpt2_architectures();
ATTEND_API std::vector<Architecture> gpt_neox_architectures();
ATTEND_API std::vector<Architecture> llama_architectures();
ATTEND_API std::vector<Architecture> t5_architectures();

}  // namespace attend
