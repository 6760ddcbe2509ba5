#pragma once

#include "attend/io/safetensors.h"
#include "io/files.h"
#include "pretrained/published_config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

namespace attend {

/// Returns small configs of published models, by model_type. Each key that is absent has the
/// default of its architecture.
inline nlohmann::json small_config(const std::string& model_type) {
  const nlohmann::json llama{
      {"model_type", model_type}, {"vocab_size", 20},       {"hidden_size", 8},
      {"intermediate_size", 12},  {"num_hidden_layers", 2}, {"num_attention_heads", 2},
      {"num_key_value_heads", 1}, {"head_dim", 4},          {"max_position_embeddings", 16}};
  if (model_type == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 20}, {"n_positions", 16},
            {"n_embd", 8},          {"n_layer", 2},     {"n_head", 2}};
  }
  if (model_type == "bert" || model_type == "roberta" || model_type == "gpt_neox") {
    auto config = llama;
    config.erase("num_key_value_heads");
    config.erase("head_dim");
    return config;
  }
  return llama;
}

/// Returns random weights with the names and shapes that the architecture has in files.
inline std::map<std::string, torch::Tensor> weights_of(const nlohmann::json& config) {
  JsonFields reader(config, "");
  const auto published = read_config(reader);
  const auto rows = published.architecture->weights(published.model);
  std::map<std::string, torch::Tensor> weights;
  for (const auto& row : rows.all()) {
    for (const auto& part : row.parts) weights.emplace(part.name, torch::randn(part.shape));
  }
  return weights;
}

/// A tokenizer with the words w0, w1, ...
inline std::string small_tokenizer(int64_t vocab_size) {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (int64_t i = 0; i < vocab_size; ++i) vocabulary["w" + std::to_string(i)] = i;
  return nlohmann::json{
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", nlohmann::json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"post_processor", nullptr},
      {"decoder", nullptr},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "w0"}}}}
      .dump();
}

/// Writes a published model with random weights.
inline void write_pretrained(const std::filesystem::path& folder, const nlohmann::json& config,
                             const std::map<std::string, torch::Tensor>& weights) {
  std::filesystem::create_directories(folder);
  replace_file(folder / "config.json", config.dump());
  replace_file(folder / "tokenizer.json", small_tokenizer(20));
  save_safetensors(folder / "model.safetensors", {.tensors = weights});
}

}  // namespace attend
