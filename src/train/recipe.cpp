#include "attend/train/recipe.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <array>

namespace attend::train {
namespace {

constexpr double kLargest = 9e15;  // whole numbers up to here are exact as double
constexpr double kLargestSize = 65536;

struct CheckRange {
  const RecipeField& field;

  void operator()(std::monostate) const {}
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

template <typename Config, typename T>
FieldRef field_of(Recipe& recipe, T Config::*member) {
  auto* config = std::get_if<Config>(&recipe.model);
  return config == nullptr ? FieldRef() : FieldRef(&(config->*member));
}

bool holds_value(const FieldRef& field) {
  return !std::holds_alternative<std::monostate>(field);
}

}  // namespace

std::string_view model_kind(const ModelConfig& config) {
  return kModelKinds.at(config.index());
}

StackConfig& Recipe::stack() {
  return std::visit([](auto& config) -> StackConfig& { return config.stack; }, model);
}

const StackConfig& Recipe::stack() const {
  return std::visit([](const auto& config) -> const StackConfig& { return config.stack; }, model);
}

int64_t& Recipe::max_seq_len() {
  return std::visit([](auto& config) -> int64_t& { return config.max_seq_len; }, model);
}

int64_t Recipe::max_seq_len() const {
  return std::visit([](const auto& config) { return config.max_seq_len; }, model);
}

const std::vector<RecipeField>& recipe_fields() {
// A field of a recipe; its reference is a function without captures.
#define ATTEND_FIELD(section, key, member, help, low, high)                        \
  {                                                                                \
    section, key, help, low, high, [](Recipe& r) -> FieldRef { return &r.member; } \
  }
  static const std::vector<RecipeField> fields{
      ATTEND_FIELD("", "task", task, "what to learn", 0, 0),
      ATTEND_FIELD("", "text", text, "UTF-8 file to learn: a text, or a table of labelled lines", 0,
                   0),

      ATTEND_FIELD("data", "length", data.length,
                   "longest sequence of the task's symbols, as a number's digits", 1, 4096),
      ATTEND_FIELD("data", "symbols", data.symbols,
                   "different symbols of the task; the modulus of arithmetic", 1, 4096),
      ATTEND_FIELD("data", "val_fraction", data.val_fraction,
                   "share of a list or a file that is not trained on", 0.001, 0.999),
      ATTEND_FIELD("data", "tokenizer", data.tokenizer, "what a token of a file is", 0, 0),
      ATTEND_FIELD("data", "vocab_size", data.vocab_size,
                   "most words, 0 = all of them; exact number of subwords", 0, 1000000),

      ATTEND_FIELD("model", "num_layers", stack().num_layers,
                   "transformer blocks; 0 = no attention", 0, 1000),
      ATTEND_FIELD("model", "num_heads", stack().num_heads, "attention heads in a block", 1,
                   kLargestSize),
      ATTEND_FIELD("model", "num_kv_heads", stack().num_kv_heads,
                   "heads of keys and values, a divisor of heads; 0 = heads", 0, kLargestSize),
      ATTEND_FIELD("model", "head_dim", stack().head_dim, "width of a head; 0 = embed-dim / heads",
                   0, kLargestSize),
      ATTEND_FIELD("model", "embed_dim", stack().embed_dim, "width of the model", 1, kLargestSize),
      ATTEND_FIELD("model", "dim_feedforward", stack().dim_feedforward,
                   "width of the feed-forward; 0 = 4 * embed-dim", 0, kLargestSize),
      ATTEND_FIELD("model", "activation", stack().activation, "of the feed-forward", 0, 0),
      ATTEND_FIELD("model", "num_experts", stack().num_experts,
                   "feed-forwards that tokens are routed to; 0 = no routing", 0, 1024),
      ATTEND_FIELD("model", "num_experts_per_tok", stack().num_experts_per_tok,
                   "experts that a token goes through", 1, 1024),
      ATTEND_FIELD("model", "max_seq_len", max_seq_len(), "longest sequence, in tokens", 1,
                   kLargestSize),
      ATTEND_FIELD("model", "dropout", stack().dropout, "probability of dropping an activation", 0,
                   0.99),
      ATTEND_FIELD("model", "stochastic_depth", stack().stochastic_depth,
                   "probability of leaving out the last layer's branches", 0, 0.99),
      ATTEND_FIELD("model", "bias", stack().bias, "biases in the blocks' projections and norms", 0,
                   1),
      {"model", "tie_embeddings", "output head shares the token embedding", 0, 1,
       [](Recipe& r) {
         const auto language_model = field_of(r, &LanguageModelConfig::tie_embeddings);
         return holds_value(language_model) ? language_model
                                            : field_of(r, &Seq2SeqConfig::tie_embeddings);
       }},
      {"model", "pooling", "how a sequence becomes one vector", 0, 0,
       [](Recipe& r) { return field_of(r, &SequenceClassifierConfig::pooling); }},
      {"model", "num_decoder_layers", "blocks of the decoder; -1 = layers", -1, 1000,
       [](Recipe& r) { return field_of(r, &Seq2SeqConfig::num_decoder_layers); }},
      ATTEND_FIELD("model", "positions", stack().positions, "how positions enter", 0, 0),
      ATTEND_FIELD("model", "rotary_theta", stack().rotary_theta, "base of the rotary frequencies",
                   1, 1000000000000.0),
      ATTEND_FIELD("model", "rotary_dim", stack().rotary_dim,
                   "channels of a head that are rotated, an even number; 0 = all", 0, kLargestSize),
      ATTEND_FIELD("model", "rotary_interleaved", stack().rotary_interleaved,
                   "rotate neighbouring channels, not halves of the head", 0, 1),
      ATTEND_FIELD("model", "rotary_scaling", stack().rotary_scaling,
                   "how rotary positions are stretched", 0, 0),
      ATTEND_FIELD("model", "rotary_factor", stack().rotary_factor,
                   "by how much rotary positions are stretched", 1, 1000000.0),
      ATTEND_FIELD("model", "rotary_original_max_seq_len", stack().rotary_original_max_seq_len,
                   "context before stretching, for yarn and llama3", 0, kLargest),
      ATTEND_FIELD("model", "relative_attention_num_buckets",
                   stack().relative_attention_num_buckets,
                   "buckets of distances, for relative positions", 2, kLargest),
      ATTEND_FIELD("model", "relative_attention_max_distance",
                   stack().relative_attention_max_distance,
                   "distance from which on all are in one bucket", 1, kLargest),
      ATTEND_FIELD("model", "sliding_window", stack().sliding_window,
                   "tokens that a token sees, itself included; 0 = all", 0, kLargest),
      ATTEND_FIELD("model", "soft_cap", stack().soft_cap, "bound of the attention scores; 0 = none",
                   0, 1000000000.0),
      ATTEND_FIELD("model", "qk_norm", stack().qk_norm, "norm of queries and keys", 0, 0),
      ATTEND_FIELD("model", "output_gate", stack().output_gate, "a sigmoid gate for each head", 0,
                   1),
      ATTEND_FIELD("model", "attention_sinks", stack().attention_sinks,
                   "a learned score to attend to nothing, for each head", 0, 1),
      ATTEND_FIELD("model", "smeared_keys", stack().smeared_keys,
                   "mix each key with the one before it", 0, 1),
      ATTEND_FIELD("model", "value_residual", stack().value_residual,
                   "mix values with the first layer's", 0, 1),
      ATTEND_FIELD("model", "norm", stack().norm, "layer or root-mean-square normalisation", 0, 0),
      ATTEND_FIELD("model", "norm_eps", stack().norm_eps, "added to the variance in a norm", 0, 1),
      ATTEND_FIELD("model", "norm_order", stack().norm_order, "where the norms of a branch stand",
                   0, 0),
      ATTEND_FIELD("model", "branch_scaling", stack().branch_scaling, "learned factor of a branch",
                   0, 0),
      ATTEND_FIELD("model", "residual_scale", stack().residual_scale, "constant factor of a branch",
                   0, 1000000.0),
      ATTEND_FIELD("model", "gradient_checkpointing", stack().gradient_checkpointing,
                   "gradient_checkpointing activations in the backward pass: less memory", 0, 1),
      ATTEND_FIELD("model", "initialization", stack().initialization, "where the weights begin", 0,
                   0),

      ATTEND_FIELD("training", "max_steps", training.max_steps, "optimizer steps", 1, kLargest),
      ATTEND_FIELD("training", "batch_size", training.batch_size, "sequences in a backward pass", 1,
                   kLargestSize),
      ATTEND_FIELD("training", "gradient_accumulation_steps", training.gradient_accumulation_steps,
                   "backward passes in a step", 1, kLargestSize),
      ATTEND_FIELD("training", "lr", training.lr, "highest learning rate", 0, 10),
      ATTEND_FIELD("training", "schedule", training.schedule,
                   "course of the learning rate after the warm-up", 0, 0),
      ATTEND_FIELD("training", "min_lr_ratio", training.min_lr_ratio,
                   "learning rate at the last step, if it falls, as a share of lr", 0, 1),
      ATTEND_FIELD("training", "warmup_steps", training.warmup_steps,
                   "steps of rising learning rate", 0, kLargest),
      ATTEND_FIELD("training", "cooldown_fraction", training.cooldown_fraction,
                   "share of the steps in which wsd's learning rate falls", 0, 1),
      ATTEND_FIELD("training", "optimizer", training.optimizer,
                   "muon is for hidden matrices, and leaves the rest to adamw", 0, 0),
      ATTEND_FIELD("training", "weight_decay", training.weight_decay,
                   "share that matrices lose in a step, times its learning rate", 0, 10),
      ATTEND_FIELD("training", "beta1", training.beta1, "AdamW's memory of the gradient", 0,
                   0.9999999),
      ATTEND_FIELD("training", "beta2", training.beta2, "AdamW's memory of its square", 0,
                   0.9999999),
      ATTEND_FIELD("training", "momentum", training.momentum,
                   "Muon's memory: share of the mean gradient that a step keeps", 0, 0.9999999),
      ATTEND_FIELD("training", "max_grad_norm", training.max_grad_norm,
                   "highest gradient norm; 0 = no limit", 0, 1e9),
      ATTEND_FIELD("training", "label_smoothing", training.label_smoothing,
                   "share of a target's weight that all tokens share", 0, 0.99),
      ATTEND_FIELD("training", "router_aux_loss_coef", training.router_aux_loss_coef,
                   "weight of the loss that spreads tokens over experts", 0, 100),
      ATTEND_FIELD("training", "precision", training.precision,
                   "of the forward pass; weights stay fp32", 0, 0),
      ATTEND_FIELD("training", "on_nonfinite", training.on_nonfinite,
                   "what to do when the loss is not finite", 0, 0),
      ATTEND_FIELD("training", "eval_every", training.eval_every, "steps between evaluations", 1,
                   kLargest),
      ATTEND_FIELD("training", "patience", training.patience,
                   "evaluations without a lower loss that end the run; 0 = none do", 0, kLargest),
      ATTEND_FIELD("training", "checkpoint_every", training.checkpoint_every,
                   "steps between checkpoints", 1, kLargest),
      ATTEND_FIELD("training", "log_every", training.log_every, "steps between progress reports", 1,
                   kLargest),
      ATTEND_FIELD("training", "seed", training.seed, "of weights, batches and dropout", 0,
                   kLargest),
      ATTEND_FIELD("training", "threads", training.threads, "CPU threads; 0 = LibTorch's choice", 0,
                   1024),
      ATTEND_FIELD("training", "device", training.device,
                   "cpu, cuda, cuda:1, ...; auto = a GPU if there is one", 0, 0),
  };
#undef ATTEND_FIELD
  return fields;
}

std::string value_text(const RecipeField& field, const Recipe& recipe) {
  Recipe values = recipe;  // fields refer to what they may change
  return std::visit(
      [](auto value) {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return std::string();
        else if constexpr (std::is_enum_v<T>)
          return std::string(to_string(*value));
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(*value ? "on" : "off");
        else
          return fmt::format("{}", *value);
      },
      field.ref(values));
}

void check_recipe(const Recipe& recipe) {
  Recipe values = recipe;  // fields refer to what they may change
  for (const auto& field : recipe_fields()) std::visit(CheckRange{field}, field.ref(values));
  const auto& stack = recipe.stack();
  if (stack.head_dim == 0 && stack.embed_dim % stack.num_heads != 0) {
    throw InputError(fmt::format("embed_dim ({}) must be divisible by heads ({})", stack.embed_dim,
                                 stack.num_heads));
  }
  if (stack.num_kv_heads != 0 && stack.num_heads % stack.num_kv_heads != 0) {
    throw InputError(fmt::format("heads ({}) must be divisible by num_kv_heads ({})",
                                 stack.num_heads, stack.num_kv_heads));
  }
}

}  // namespace attend::train
