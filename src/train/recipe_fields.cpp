// The table of all values of a recipe.
#include "attend/train/recipe.h"

namespace attend::train {
namespace {

constexpr double kMaxInteger = 9e15;  // integers up to here are exact as double
constexpr double kMaxSize = 65536;

constexpr const char* kSizeGroup = "Model, size";
constexpr const char* kAttentionGroup = "Model, attention";
constexpr const char* kFeedForwardGroup = "Model, feed-forward";
constexpr const char* kPositionsGroup = "Model, positions";
constexpr const char* kResidualGroup = "Model, norms and residual branches";
constexpr const char* kDropoutGroup = "Model, dropout";
constexpr const char* kLengthGroup = "Training, length and batches";
constexpr const char* kOptimizerGroup = "Training, optimizer";
constexpr const char* kReportsGroup = "Training, reports";

template <typename Config, typename T>
FieldRef field_of(Recipe& recipe, T Config::*member) {
  auto* config = std::get_if<Config>(&recipe.model);
  return config == nullptr ? FieldRef() : FieldRef(&(config->*member));
}

bool has_value(const FieldRef& field) {
  return !std::holds_alternative<std::monostate>(field);
}

/// Returns the one of `members` that belongs to the recipe's model config.
template <auto... members>
FieldRef model_field(Recipe& recipe) {
  FieldRef found;
  ((found = has_value(found) ? found : field_of(recipe, members)), ...);
  return found;
}

}  // namespace

const std::vector<RecipeField>& recipe_fields() {
// A field of all recipes. `ref` is a lambda without captures.
#define ATTEND_FIELD(section, key, member, unit, group, min, max, help)                        \
  {                                                                                            \
    section, key, unit, group, help, min, max, [](Recipe& r) -> FieldRef { return &r.member; } \
  }
  static const std::vector<RecipeField> fields{
      ATTEND_FIELD("", "task", task, "", "Task", 0, 0, "name of the task"),
      ATTEND_FIELD("", "text", text, "FILE", "Task", 0, 0,
                   "UTF-8 file to train on: a text, or a table of labelled lines"),

      ATTEND_FIELD(
          "data", "length", data.length, "SYMBOLS", "Data", 1, 4096,
          "maximum number of symbols in a sequence of the task, such as digits of a number"),
      ATTEND_FIELD("data", "symbols", data.symbols, "SYMBOLS", "Data", 1, 4096,
                   "number of different symbols; the modulus of modular-arithmetic"),
      ATTEND_FIELD("data", "val_fraction", data.val_fraction, "FRACTION", "Data", 0.001, 0.999,
                   "fraction of the data used for validation"),
      ATTEND_FIELD("data", "tokenizer", data.tokenizer, "", "Data", 0, 0, "tokenizer of a text"),
      ATTEND_FIELD(
          "data", "vocab_size", data.vocab_size, "TOKENS", "Data", 0, 1000000,
          "vocabulary size: maximum number of words (0 = no limit), or number of subwords"),

      ATTEND_FIELD("model", "num_layers", stack().num_layers, "BLOCKS", kSizeGroup, 0, 1000,
                   "number of transformer blocks; 0 = embeddings and head only"),
      ATTEND_FIELD("model", "num_heads", stack().num_heads, "HEADS", kAttentionGroup, 1, kMaxSize,
                   "number of attention heads per block"),
      ATTEND_FIELD("model", "num_kv_heads", stack().num_kv_heads, "HEADS", kAttentionGroup, 0,
                   kMaxSize, "number of key-value heads, a divisor of num_heads; 0 = num_heads"),
      ATTEND_FIELD("model", "head_dim", stack().head_dim, "CHANNELS", kAttentionGroup, 0, kMaxSize,
                   "dimension of a head; 0 = embed_dim / num_heads"),
      ATTEND_FIELD("model", "embed_dim", stack().embed_dim, "CHANNELS", kSizeGroup, 1, kMaxSize,
                   "embedding dimension"),
      ATTEND_FIELD("model", "dim_feedforward", stack().dim_feedforward, "CHANNELS",
                   kFeedForwardGroup, 0, kMaxSize,
                   "hidden dimension of the feed-forward layer; 0 = 4 * embed_dim"),
      ATTEND_FIELD("model", "activation", stack().activation, "", kFeedForwardGroup, 0, 0,
                   "activation of the feed-forward layer"),
      ATTEND_FIELD("model", "num_experts", stack().num_experts, "EXPERTS", kFeedForwardGroup, 0,
                   1024,
                   "number of experts in a mixture of experts; 0 = one dense feed-forward layer"),
      ATTEND_FIELD("model", "num_experts_per_tok", stack().num_experts_per_tok, "EXPERTS",
                   kFeedForwardGroup, 1, 1024, "number of experts per token"),
      ATTEND_FIELD("model", "max_seq_len", max_seq_len(), "TOKENS", kSizeGroup, 1, kMaxSize,
                   "maximum sequence length"),
      ATTEND_FIELD("model", "dropout", stack().dropout, "PROBABILITY", kDropoutGroup, 0, 0.99,
                   "dropout probability"),
      ATTEND_FIELD("model", "stochastic_depth", stack().stochastic_depth, "PROBABILITY",
                   kDropoutGroup, 0, 0.99,
                   "probability of skipping the last block\'s branches, less for earlier blocks"),
      ATTEND_FIELD("model", "bias", stack().bias, "", "Model", 0, 1,
                   "biases in the linear layers and norms of the blocks"),
      ATTEND_FIELD("model", "qkv_bias", stack().qkv_bias, "", kAttentionGroup, 0, 1,
                   "biases in the query, key and value projections even without bias (Qwen2)"),
      {"model", "tie_embeddings", "", "Model",
       "share weights between token embedding and output head", 0, 1,
       model_field<&LanguageModelConfig::tie_embeddings, &Seq2SeqConfig::tie_embeddings>},
      {"model", "logit_scale", "FACTOR", "Model", "factor of the logits", -1e9, 1e9,
       model_field<&LanguageModelConfig::logit_scale, &Seq2SeqConfig::logit_scale>},
      {"model", "final_logit_soft_cap", "", "Model",
       "soft cap of the logits, cap * tanh(logits / cap); 0 = none", 0, 1e9,
       model_field<&LanguageModelConfig::final_logit_soft_cap,
                   &Seq2SeqConfig::final_logit_soft_cap>},
      {"model", "type_vocab_size", "TYPES", "Model",
       "number of token types, as of two segments in BERT; 0 = none", 0, kMaxSize,
       model_field<&SequenceClassifierConfig::type_vocab_size>},
      {"model", "pooling", "", "Model", "pooling of the sequence for classification", 0, 0,
       model_field<&SequenceClassifierConfig::pooling>},
      {"model", "pooler", "", "Model", "linear layer with tanh after pooling (BERT)", 0, 1,
       model_field<&SequenceClassifierConfig::pooler>},
      {"model", "num_decoder_layers", "BLOCKS", kSizeGroup,
       "number of decoder blocks; -1 = num_layers", -1, 1000,
       model_field<&Seq2SeqConfig::num_decoder_layers>},
      ATTEND_FIELD("model", "embedding_scale", stack().embedding_scale, "FACTOR", "Model", -1e9,
                   1e9, "factor of the token embeddings, such as the square root of embed_dim"),
      ATTEND_FIELD("model", "embedding_norm", stack().embedding_norm, "", kResidualGroup, 0, 1,
                   "normalization layer after the embeddings (BERT)"),
      ATTEND_FIELD("model", "positions", stack().positions, "", kPositionsGroup, 0, 0,
                   "position encoding"),
      ATTEND_FIELD("model", "rotary_theta", stack().rotary_theta, "", kPositionsGroup, 1, 1e12,
                   "base of the rotary frequencies"),
      ATTEND_FIELD("model", "rotary_dim", stack().rotary_dim, "CHANNELS", kPositionsGroup, 0,
                   kMaxSize, "number of rotated channels per head, even; 0 = all"),
      ATTEND_FIELD("model", "rotary_interleaved", stack().rotary_interleaved, "", kPositionsGroup,
                   0, 1,
                   "rotate adjacent channels (GPT-J) instead of half and half (GPT-NeoX, Llama)"),
      ATTEND_FIELD("model", "rotary_scaling", stack().rotary_scaling, "", kPositionsGroup, 0, 0,
                   "rotary scaling for longer sequences"),
      ATTEND_FIELD("model", "rotary_factor", stack().rotary_factor, "FACTOR", kPositionsGroup, 1,
                   1e6, "rotary scaling factor"),
      ATTEND_FIELD("model", "rotary_original_max_seq_len", stack().rotary_original_max_seq_len,
                   "TOKENS", kPositionsGroup, 0, kMaxInteger,
                   "maximum sequence length before scaling, for yarn and llama3"),
      ATTEND_FIELD("model", "rotary_beta_fast", stack().rotary_beta_fast, "ROTATIONS",
                   kPositionsGroup, 0, 1e9,
                   "yarn: channels with more rotations than this are not scaled"),
      ATTEND_FIELD("model", "rotary_beta_slow", stack().rotary_beta_slow, "ROTATIONS",
                   kPositionsGroup, 0, 1e9,
                   "yarn: channels with fewer rotations than this are scaled by rotary_factor"),
      ATTEND_FIELD("model", "rotary_truncate", stack().rotary_truncate, "", kPositionsGroup, 0, 1,
                   "yarn: round the ends of the ramp to whole channels"),
      ATTEND_FIELD("model", "rotary_attention_factor", stack().rotary_attention_factor, "FACTOR",
                   kPositionsGroup, 0, 1e6,
                   "yarn: factor of cos and sin; 0 = 0.1 * ln(rotary_factor) + 1"),
      ATTEND_FIELD("model", "rotary_low_freq_factor", stack().rotary_low_freq_factor, "ROTATIONS",
                   kPositionsGroup, 0, 1e9,
                   "llama3: channels with fewer rotations than this are scaled by rotary_factor"),
      ATTEND_FIELD("model", "rotary_high_freq_factor", stack().rotary_high_freq_factor, "ROTATIONS",
                   kPositionsGroup, 0, 1e9,
                   "llama3: channels with more rotations than this are not scaled"),
      ATTEND_FIELD("model", "relative_attention_num_buckets",
                   stack().relative_attention_num_buckets, "BUCKETS", kPositionsGroup, 2,
                   kMaxInteger, "number of distance buckets of relative positions (T5)"),
      ATTEND_FIELD("model", "relative_attention_max_distance",
                   stack().relative_attention_max_distance, "TOKENS", kPositionsGroup, 1,
                   kMaxInteger, "distance from which all tokens share one bucket (T5)"),
      ATTEND_FIELD("model", "relative_attention_shared", stack().relative_attention_shared, "",
                   kPositionsGroup, 0, 1,
                   "use the relative positions\' bias of the first layer in all layers (T5)"),
      ATTEND_FIELD("model", "attention_scale", stack().attention_scale, "FACTOR", kAttentionGroup,
                   0, 1e9, "factor of the attention scores; 0 = 1 / sqrt(head_dim)"),
      ATTEND_FIELD("model", "sliding_window", stack().sliding_window, "TOKENS", kAttentionGroup, 0,
                   kMaxInteger,
                   "sliding window of attention, including the token itself; 0 = full attention"),
      ATTEND_FIELD("model", "sliding_window_pattern", stack().sliding_window_pattern, "TOKENS,...",
                   kAttentionGroup, 0, kMaxInteger,
                   "sliding windows of consecutive layers, repeated: 4096,0 alternates with full "
                   "attention (Gemma 2)"),
      ATTEND_FIELD(
          "model", "soft_cap", stack().soft_cap, "", kAttentionGroup, 0, 1e9,
          "soft cap of the attention scores, soft_cap * tanh(scores / soft_cap); 0 = none"),
      ATTEND_FIELD("model", "qk_norm", stack().qk_norm, "", kAttentionGroup, 0, 0,
                   "normalization of queries and keys"),
      ATTEND_FIELD("model", "output_gate", stack().output_gate, "", kAttentionGroup, 0, 1,
                   "sigmoid gate on each head\'s output"),
      ATTEND_FIELD("model", "attention_sinks", stack().attention_sinks, "", kAttentionGroup, 0, 1,
                   "learned attention sink per head"),
      ATTEND_FIELD("model", "smeared_keys", stack().smeared_keys, "", kAttentionGroup, 0, 1,
                   "mix each key with the previous one by a learned weight"),
      ATTEND_FIELD("model", "value_residual", stack().value_residual, "", kAttentionGroup, 0, 1,
                   "mix each layer\'s values with those of the first layer"),
      ATTEND_FIELD("model", "norm", stack().norm, "", kResidualGroup, 0, 0,
                   "normalization layer: LayerNorm or RMSNorm"),
      ATTEND_FIELD("model", "norm_eps", stack().norm_eps, "", kResidualGroup, 0, 1,
                   "epsilon of the normalization layers, also of qk_norm rms"),
      ATTEND_FIELD("model", "norm_order", stack().norm_order, "", kResidualGroup, 0, 0,
                   "placement of the normalization layers"),
      ATTEND_FIELD("model", "final_norm", stack().final_norm, "", kResidualGroup, 0, 1,
                   "normalization layer after the last block"),
      ATTEND_FIELD("model", "branch_scale", stack().branch_scale, "", kResidualGroup, 0, 0,
                   "learned scale of the residual branches"),
      ATTEND_FIELD("model", "residual_scale", stack().residual_scale, "FACTOR", kResidualGroup, 0,
                   1e6, "constant scale of the residual branches"),
      ATTEND_FIELD("model", "gradient_checkpointing", stack().gradient_checkpointing, "", "Model",
                   0, 1, "recompute activations in the backward pass to save memory"),
      ATTEND_FIELD("model", "initialization", stack().initialization, "", "Model", 0, 0,
                   "weight initialization"),

      ATTEND_FIELD("training", "max_steps", training.max_steps, "STEPS", kLengthGroup, 1,
                   kMaxInteger, "number of optimizer steps"),
      ATTEND_FIELD("training", "batch_size", training.batch_size, "SEQUENCES", kLengthGroup, 1,
                   kMaxSize, "batch size of a forward and backward pass"),
      ATTEND_FIELD("training", "gradient_accumulation_steps", training.gradient_accumulation_steps,
                   "BATCHES", kLengthGroup, 1, kMaxSize,
                   "batches per optimizer step; the global batch size is batch_size times this"),
      ATTEND_FIELD("training", "lr", training.lr, "", kOptimizerGroup, 0, 10, "peak learning rate"),
      ATTEND_FIELD("training", "schedule", training.schedule, "", kOptimizerGroup, 0, 0,
                   "learning rate schedule after the warm-up"),
      ATTEND_FIELD("training", "min_lr_ratio", training.min_lr_ratio, "FRACTION", kOptimizerGroup,
                   0, 1, "final learning rate as a fraction of lr"),
      ATTEND_FIELD("training", "warmup_steps", training.warmup_steps, "STEPS", kOptimizerGroup, 0,
                   kMaxInteger, "linear warm-up of the learning rate"),
      ATTEND_FIELD("training", "cooldown_fraction", training.cooldown_fraction, "FRACTION",
                   kOptimizerGroup, 0, 1, "fraction of the steps in which the wsd schedule decays"),
      ATTEND_FIELD("training", "optimizer", training.optimizer, "", kOptimizerGroup, 0, 0,
                   "optimizer; muon uses AdamW for all but the hidden matrices"),
      ATTEND_FIELD("training", "weight_decay", training.weight_decay, "", kOptimizerGroup, 0, 10,
                   "decoupled weight decay of matrices and embeddings"),
      ATTEND_FIELD("training", "beta1", training.beta1, "", kOptimizerGroup, 0, 0.9999999,
                   "AdamW beta1"),
      ATTEND_FIELD("training", "beta2", training.beta2, "", kOptimizerGroup, 0, 0.9999999,
                   "AdamW beta2"),
      ATTEND_FIELD("training", "momentum", training.momentum, "", kOptimizerGroup, 0, 0.9999999,
                   "Muon momentum"),
      ATTEND_FIELD("training", "max_grad_norm", training.max_grad_norm, "", kOptimizerGroup, 0, 1e9,
                   "gradient clipping: maximum norm; 0 = no clipping"),
      ATTEND_FIELD("training", "label_smoothing", training.label_smoothing, "FRACTION",
                   kOptimizerGroup, 0, 0.99, "label smoothing"),
      ATTEND_FIELD("training", "router_aux_loss_coef", training.router_aux_loss_coef, "",
                   kOptimizerGroup, 0, 100,
                   "coefficient of the load-balancing loss of a mixture of experts"),
      ATTEND_FIELD(
          "training", "precision", training.precision, "", "Training", 0, 0,
          "precision of the forward and backward pass; bf16 is mixed precision with fp32 weights"),
      ATTEND_FIELD("training", "on_nonfinite", training.on_nonfinite, "", "Training", 0, 0,
                   "what to do at a step whose loss or gradient is NaN or infinite"),
      ATTEND_FIELD("training", "eval_every", training.eval_every, "STEPS", kReportsGroup, 1,
                   kMaxInteger, "steps between evaluations"),
      ATTEND_FIELD("training", "patience", training.patience, "EVALUATIONS", kLengthGroup, 0,
                   kMaxInteger,
                   "early stopping: evaluations without a better validation loss; 0 = off"),
      ATTEND_FIELD("training", "checkpoint_every", training.checkpoint_every, "STEPS",
                   kReportsGroup, 1, kMaxInteger, "steps between checkpoints"),
      ATTEND_FIELD("training", "log_every", training.log_every, "STEPS", kReportsGroup, 1,
                   kMaxInteger, "steps between progress reports"),
      ATTEND_FIELD("training", "seed", training.seed, "", "Training", 0, kMaxInteger,
                   "random seed of weights, batches and dropout"),
      {"training", "threads", "THREADS", "Training",
       "number of CPU threads; auto measures which is fastest when training starts", 0, 1024,
       [](Recipe& r) -> FieldRef { return &r.training.threads; }, "auto"},
      ATTEND_FIELD("training", "device", training.device, "DEVICE", "Training", 0, 0,
                   "device: cpu, cuda, cuda:N, or auto = a GPU if there is one"),
  };
#undef ATTEND_FIELD
  return fields;
}

}  // namespace attend::train
