#include "attend/train/recipe.h"

#include "attend/input_error.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

// A field of a recipe, as a function without captures.
#define ATTEND_FIELD(section, name, member, help)                        \
  {                                                                      \
    section, name, help, [](Recipe& r) -> FieldRef { return &r.member; } \
  }

void check_range(const char* name, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw InputError(fmt::format("{} ({}) must be between {} and {}", name, value, low, high));
  }
}

void check_at_least(const char* name, int64_t value, int64_t low) {
  if (value < low) throw InputError(fmt::format("{} ({}) must be at least {}", name, value, low));
}

}  // namespace

const std::vector<RecipeField>& recipe_fields() {
  static const std::vector<RecipeField> fields{
      ATTEND_FIELD("", "task", task, "what to learn"),
      ATTEND_FIELD("", "text", text, "UTF-8 text file to learn, character by character"),

      ATTEND_FIELD("model", "layers", model.layers, "transformer blocks; 0 = no attention"),
      ATTEND_FIELD("model", "heads", model.heads, "attention heads in a block"),
      ATTEND_FIELD("model", "embed_dim", model.embed_dim, "width of the model"),
      ATTEND_FIELD("model", "ff_dim", model.ff_dim, "width of the feed-forward; 0 = 4 * embed-dim"),
      ATTEND_FIELD("model", "context", model.context, "longest sequence, in tokens"),
      ATTEND_FIELD("model", "dropout", model.dropout, "probability of dropping an activation"),
      ATTEND_FIELD("model", "bias", model.bias, "biases in the blocks' projections"),
      ATTEND_FIELD("model", "tied", model.tied, "output head shares the token embedding"),
      ATTEND_FIELD("model", "positions", model.positions, "how positions enter"),
      ATTEND_FIELD("model", "norm_order", model.norm_order, "layer norm before or after a branch"),
      ATTEND_FIELD("model", "activation", model.activation, "of the feed-forward"),

      ATTEND_FIELD("training", "steps", training.steps, "optimizer steps"),
      ATTEND_FIELD("training", "batch", training.batch, "sequences in a step"),
      ATTEND_FIELD("training", "lr", training.lr, "highest learning rate"),
      ATTEND_FIELD("training", "min_lr", training.min_lr, "learning rate at the last step"),
      ATTEND_FIELD("training", "warmup", training.warmup, "steps of rising learning rate"),
      ATTEND_FIELD("training", "weight_decay", training.weight_decay, "AdamW's, of matrices"),
      ATTEND_FIELD("training", "beta1", training.beta1, "AdamW's memory of the gradient"),
      ATTEND_FIELD("training", "beta2", training.beta2, "AdamW's memory of its square"),
      ATTEND_FIELD("training", "clip", training.clip, "highest gradient norm; 0 = no limit"),
      ATTEND_FIELD("training", "eval_every", training.eval_every, "steps between evaluations"),
      ATTEND_FIELD("training", "log_every", training.log_every, "steps between progress reports"),
      ATTEND_FIELD("training", "seed", training.seed, "of weights, batches and dropout"),
      ATTEND_FIELD("training", "threads", training.threads, "CPU threads; 0 = LibTorch's choice"),
  };
  return fields;
}

void check_recipe(const Recipe& recipe) {
  const auto& model = recipe.model;
  check_at_least("layers", model.layers, 0);
  check_at_least("heads", model.heads, 1);
  check_at_least("embed-dim", model.embed_dim, 1);
  check_at_least("ff-dim", model.ff_dim, 0);
  check_at_least("context", model.context, 1);
  check_range("dropout", model.dropout, 0.0, 0.99);
  if (model.embed_dim % model.heads != 0) {
    throw InputError(fmt::format("embed-dim ({}) must be divisible by heads ({})", model.embed_dim,
                                 model.heads));
  }
  const auto& training = recipe.training;
  check_at_least("steps", training.steps, 1);
  check_at_least("batch", training.batch, 1);
  check_at_least("warmup", training.warmup, 0);
  check_at_least("eval-every", training.eval_every, 1);
  check_at_least("log-every", training.log_every, 1);
  check_at_least("seed", training.seed, 0);
  check_at_least("threads", training.threads, 0);
  check_range("lr", training.lr, 0.0, 10.0);
  check_range("min-lr", training.min_lr, 0.0, training.lr);
  check_range("weight-decay", training.weight_decay, 0.0, 10.0);
  check_range("beta1", training.beta1, 0.0, 0.9999999);
  check_range("beta2", training.beta2, 0.0, 0.9999999);
  check_range("clip", training.clip, 0.0, 1e9);
}

}  // namespace attend::train
