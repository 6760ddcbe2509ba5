// What attend bench and bench/contender.cpp, the program of scripts/bench, measure alike.
#pragma once

#include "attend/models/generation.h"
#include "attend/models/language_model.h"
#include "attend/models/model.h"
#include "attend/ops/linear.h"
#include "attend/train/batch.h"
#include "attend/train/recipe.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace attend::app {

/// Name and parameters of a row, as in bench/rows.json.
using BenchRow = nlohmann::json;

/// Returns the recipe of a row of the kind "train": a language model of the text in the file
/// `text`, which is trained without evaluations.
train::Recipe training_recipe(const BenchRow& row, const std::string& text);

/// Returns the floating-point operations of the matrix products in a training step on `batch`,
/// which is on the device of the model.
int64_t flops_of_step(Model& model, const train::Batch& batch);

/// Returns the config of the model of a row of the kind "decode" or "export". The key
/// "architecture" is "gpt2" (default) or "llama".
LanguageModelConfig decoded_config(const BenchRow& row);

/// Returns the options of greedy decoding.
GenerationOptions greedy(const BenchRow& row);

/// Returns the format of the copies of the weights in a row of the kind "decode".
WeightFormat weight_format(const BenchRow& row);

/// Returns the bytes of weights that are read from memory to append the new tokens to one prompt:
/// each weight once per token.
int64_t decoded_bytes(const LanguageModel& model, const BenchRow& row);

}  // namespace attend::app
