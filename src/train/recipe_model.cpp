// Checks recipes and makes the models that they describe. Unlike recipe.cpp, it needs attend::nn.
#include "attend/input_error.h"
#include "attend/train/recipe.h"
#include "attend/train/recipe_fields.h"

#include <c10/util/Exception.h>

#include <string_view>

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

}  // namespace

void check_recipe(const Recipe& recipe) {
  for (const auto& field : recipe_fields()) check_range(field, recipe, field.key);
  try {
    encoder_options(recipe.stack(), /*causal=*/true);
  } catch (const c10::ValueError& error) {
    // The message contains names of config fields. The recipe's keys have the same names.
    throw InputError(error.what_without_backtrace());
  }
}

void check_training_config(const TrainingConfig& config) {
  Recipe recipe;
  recipe.training = config;
  for (const auto& field : recipe_fields()) {
    if (field.section == std::string_view("training")) check_range(field, recipe, field.key);
  }
}

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

}  // namespace attend::train
