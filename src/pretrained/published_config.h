#pragma once

#include "attend/api.h"
#include "pretrained/architecture.h"

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Content of a `config.json`.
struct PublishedConfig {
  const Architecture* architecture;
  std::string class_name;  ///< one of the classes of the architecture
  ModelConfig model;
  std::optional<torch::ScalarType> dtype = std::nullopt;  ///< if not set, that of the file
  std::vector<std::string> classes = {};                  ///< class names of a classifier
  std::vector<int64_t> eos_tokens = {};
  std::optional<int64_t> decoder_start_token = std::nullopt;
};

/// True if models can have the dtype: float32, float64, float16 or bfloat16.
ATTEND_API bool is_model_dtype(torch::ScalarType dtype);

/// Throws c10::ValueError if the option `dtype` has a dtype that models cannot have.
ATTEND_API void check_dtype_option(const std::optional<torch::ScalarType>& dtype);

/// Reads the key `eos_token_id` of `config.json` or `generation_config.json`. Throws InputError if
/// a model with `config` generates text, and a token is not in its vocabulary.
ATTEND_API std::vector<int64_t> read_eos_tokens(JsonFields& reader, const ModelConfig& config);

/// Reads a `config.json`. Throws InputError if the architecture or a key is not supported.
ATTEND_API PublishedConfig read_config(JsonFields& reader);

/// Returns a `config.json`. Options that the architecture cannot have are left out.
ATTEND_API nlohmann::ordered_json write_config(const PublishedConfig& published);

}  // namespace attend
