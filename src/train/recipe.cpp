#include "attend/train/recipe.h"

#include "attend/input_error.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

constexpr double kLargest = 9e15;  // whole numbers up to here are exact as double
constexpr double kLargestSize = 65536;

struct CheckRange {
  const RecipeField& field;

  template <typename T>
  void operator()(const T* value) const {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const auto number = static_cast<double>(*value);
      if (!(number >= field.low && number <= field.high)) {  // so that NaN is refused, too
        throw InputError(fmt::format("{} ({}) must be between {} and {}", field.key, *value,
                                     field.low, field.high));
      }
    }
  }
};

}  // namespace

const std::vector<RecipeField>& recipe_fields() {
// A field of a recipe; its reference is a function without captures.
#define ATTEND_FIELD(section, key, member, help, low, high)                        \
  {                                                                                \
    section, key, help, low, high, [](Recipe& r) -> FieldRef { return &r.member; } \
  }
  static const std::vector<RecipeField> fields{
      ATTEND_FIELD("", "task", task, "what to learn", 0, 0),
      ATTEND_FIELD("", "text", text, "UTF-8 text file to learn, character by character", 0, 0),

      ATTEND_FIELD("model", "layers", model.layers, "transformer blocks; 0 = no attention", 0,
                   1000),
      ATTEND_FIELD("model", "heads", model.heads, "attention heads in a block", 1, kLargestSize),
      ATTEND_FIELD("model", "embed_dim", model.embed_dim, "width of the model", 1, kLargestSize),
      ATTEND_FIELD("model", "ff_dim", model.ff_dim, "width of the feed-forward; 0 = 4 * embed-dim",
                   0, kLargestSize),
      ATTEND_FIELD("model", "context", model.context, "longest sequence, in tokens", 1,
                   kLargestSize),
      ATTEND_FIELD("model", "dropout", model.dropout, "probability of dropping an activation", 0,
                   0.99),
      ATTEND_FIELD("model", "bias", model.bias, "biases in the blocks' projections", 0, 1),
      ATTEND_FIELD("model", "tied", model.tied, "output head shares the token embedding", 0, 1),
      ATTEND_FIELD("model", "positions", model.positions, "how positions enter", 0, 0),
      ATTEND_FIELD("model", "norm_order", model.norm_order, "layer norm before or after a branch",
                   0, 0),
      ATTEND_FIELD("model", "activation", model.activation, "of the feed-forward", 0, 0),

      ATTEND_FIELD("training", "steps", training.steps, "optimizer steps", 1, kLargest),
      ATTEND_FIELD("training", "batch", training.batch, "sequences in a step", 1, kLargestSize),
      ATTEND_FIELD("training", "lr", training.lr, "highest learning rate", 0, 10),
      ATTEND_FIELD("training", "min_lr_ratio", training.min_lr_ratio,
                   "learning rate at the last step, as a share of lr", 0, 1),
      ATTEND_FIELD("training", "warmup", training.warmup, "steps of rising learning rate", 0,
                   kLargest),
      ATTEND_FIELD("training", "weight_decay", training.weight_decay, "AdamW's, of matrices", 0,
                   10),
      ATTEND_FIELD("training", "beta1", training.beta1, "AdamW's memory of the gradient", 0,
                   0.9999999),
      ATTEND_FIELD("training", "beta2", training.beta2, "AdamW's memory of its square", 0,
                   0.9999999),
      ATTEND_FIELD("training", "clip", training.clip, "highest gradient norm; 0 = no limit", 0,
                   1e9),
      ATTEND_FIELD("training", "eval_every", training.eval_every, "steps between evaluations", 1,
                   kLargest),
      ATTEND_FIELD("training", "log_every", training.log_every, "steps between progress reports", 1,
                   kLargest),
      ATTEND_FIELD("training", "seed", training.seed, "of weights, batches and dropout", 0,
                   kLargest),
      ATTEND_FIELD("training", "threads", training.threads, "CPU threads; 0 = LibTorch's choice", 0,
                   1024),
  };
#undef ATTEND_FIELD
  return fields;
}

void check_recipe(const Recipe& recipe) {
  Recipe values = recipe;  // fields refer to what they may change
  for (const auto& field : recipe_fields()) std::visit(CheckRange{field}, field.ref(values));
  if (recipe.model.embed_dim % recipe.model.heads != 0) {
    throw InputError(fmt::format("embed_dim ({}) must be divisible by heads ({})",
                                 recipe.model.embed_dim, recipe.model.heads));
  }
}

}  // namespace attend::train
