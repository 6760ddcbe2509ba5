// The table of all fields of a recipe, and functions that read the values of the fields.
#include "attend/train/recipe_fields.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

namespace attend::train {
namespace {

constexpr double kMaxInteger = 9e15;  // integers up to this value are exact as double
constexpr double kMaxSize = 65536;
constexpr double kMaxLength = 1 << 24;  // of a sequence; published models have up to 10 million

constexpr const char* kSizeGroup = "Model, size";
constexpr const char* kAttentionGroup = "Model, attention";
constexpr const char* kFeedForwardGroup = "Model, feed-forward";
constexpr const char* kPositionsGroup = "Model, positions";
constexpr const char* kResidualGroup = "Model, norms and residual branches";
constexpr const char* kDropoutGroup = "Model, dropout";
constexpr const char* kLoraGroup = "Fine-tuning, low-rank adapters (LoRA)";
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

template <auto member>
FieldRef recipe_field(Recipe& recipe) {
  return &(recipe.*member);
}

template <auto member>
FieldRef data_field(Recipe& recipe) {
  return &(recipe.data.*member);
}

/// `members` lead to the field: for example, a member of StackConfig and one of RotaryOptions.
template <auto... members>
FieldRef stack_field(Recipe& recipe) {
  return &(recipe.stack().*....*members);
}

template <auto member>
FieldRef lora_field(Recipe& recipe) {
  return &(recipe.lora.*member);
}

template <auto member>
FieldRef training_field(Recipe& recipe) {
  return &(recipe.training.*member);
}

FieldRef activation_field(Recipe& recipe) {
  auto* activation = std::get_if<Activation>(&recipe.stack().activation);
  if (activation == nullptr)
    throw InputError(
        "model.activation: a recipe cannot contain a function; use a named activation");
  return activation;
}

/// Returns a pointer to an option of the recipe's model. Each kind of model has its own config
/// struct. `members` are pointers to the option in these structs, for example
/// `&Seq2SeqConfig::tie_embeddings`. Returns monostate if the recipe's kind of model does not have
/// the option.
template <auto... members>
FieldRef model_field(Recipe& recipe) {
  FieldRef found;
  ((found = has_value(found) ? found : field_of(recipe, members)), ...);
  return found;
}

struct CheckRange {
  const RecipeField& field;
  const std::string& name;  ///< of the field, for messages

  void operator()(const std::vector<int64_t>& values) const {
    for (const auto value : values) (*this)(value);
  }
  template <typename T>
  void operator()(const T& value) const {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      const auto number = static_cast<double>(value);
      if (!(number >= field.min && number <= field.max)) {  // true for NaN
        throw InputError(fmt::format("{} is {}, expected a value between {} and {}", name, value,
                                     field.min, field.max));
      }
    }
  }
};

}  // namespace

const std::vector<RecipeField>& recipe_fields() {
  static const std::vector<RecipeField> fields{
      {"", "task", "", "Task", "name of the task", 0, 0, recipe_field<&Recipe::task>},
      {"", "text", "FILE", "Task",
       "UTF-8 file to train on (any bytes with --tokenizer byte): a text, or a table or file of "
       "tagged words, as the task reads it; may be repeated, or be a pattern such as 'data/*.txt'",
       0, 0, recipe_field<&Recipe::text>},

      {"data", "length", "SYMBOLS", "Data",
       "maximum number of symbols in a sequence of the task, such as digits of a number", 1, 4096,
       data_field<&DataConfig::length>},
      {"data", "symbols", "SYMBOLS", "Data",
       "number of different symbols; the modulus of modular-arithmetic", 1, 4096,
       data_field<&DataConfig::symbols>},
      {"data", "val_fraction", "FRACTION", "Data", "fraction of the data used for validation",
       0.001, 0.999, data_field<&DataConfig::val_fraction>},
      {"data", "val_text", "FILE", "Data",
       "file to validate on, in the format of --text, instead of a fraction of the text; may be "
       "repeated, or be a pattern",
       0, 0, data_field<&DataConfig::val_text>},
      {"data", "tokenizer", "", "Data", "tokenizer of tasks that read a file", 0, 0,
       data_field<&DataConfig::tokenizer>},
      {"data", "vocab_size", "TOKENS", "Data",
       "vocabulary size: maximum number of words (0 = no limit), or number of subwords", 0, 1000000,
       data_field<&DataConfig::vocab_size>},
      {"data", "unknown", "", "Data",
       "character tokenizer: refuse characters that are not in the vocabulary, or replace them by "
       "the token <unk>",
       0, 0, data_field<&DataConfig::unknown>},
      {"data", "text_column", "NAME", "Data",
       "table: name of the column of texts or words; columns without names: number of the column, "
       "from 1",
       0, 0, data_field<&DataConfig::text_column>},
      {"data", "label_column", "NAME", "Data",
       "table: name of the column of labels or tags; columns without names: number of the column, "
       "from 1",
       0, 0, data_field<&DataConfig::label_column>},
      {"data", "prompt_column", "NAME", "Data", "table: name of the column of prompts", 0, 0,
       data_field<&DataConfig::prompt_column>},
      {"data", "answer_column", "NAME", "Data", "table: name of the column of answers", 0, 0,
       data_field<&DataConfig::answer_column>},
      {"data", "messages_column", "NAME", "Data",
       ".jsonl: name of the column of chats (lists of messages), read instead of prompts and "
       "answers [none]",
       0, 0, data_field<&DataConfig::messages_column>},
      {"data", "problem_type", "", "Data",
       "table: what the labels are: one class per text, any number of labels per text, or a "
       "number; "
       "the last two names are those of tasks of their own",
       0, 0, data_field<&DataConfig::problem_type>},
      {"data", "label_separator", "TEXT", "Data",
       "table, multi-label: text between two labels in the column of labels", 0, 0,
       data_field<&DataConfig::label_separator>},
      {"data", "threshold", "PROBABILITY", "Data",
       "table, multi-label: smallest probability of a predicted label", 0, 1,
       data_field<&DataConfig::threshold>},
      {"data", "truncate", "", "Data",
       "table: side from which tokens of texts longer than max_seq_len are removed", 0, 0,
       data_field<&DataConfig::truncate>},
      {"data", "class_weights", "WEIGHTS", "Data",
       "table: weights of the classes in the training loss: none, balanced (inverse to the number "
       "of "
       "texts of each class), or a number for each class, separated by commas, in the order of "
       "their "
       "names",
       0, 0, data_field<&DataConfig::class_weights>},
      {"data", "stratify", "", "Data",
       "table: split each class in the same ratio into training and validation data", 0, 1,
       data_field<&DataConfig::stratify>, /*zero=*/"", /*before=*/"false"},
      {"data", "mask_probability", "FRACTION", "Data",
       "masked-lm: fraction of the tokens of a sequence that are predicted", 0.001, 0.999,
       data_field<&DataConfig::mask_probability>},
      {"data", "keep_carriage_returns", "", "Data",
       "keep the line breaks CR LF of texts instead of reading them as LF", 0, 1,
       data_field<&DataConfig::keep_carriage_returns>, /*zero=*/"", /*before=*/"true"},
      {"data", "token_dir", "DIR", "Data",
       "directory of the token files of texts larger than --max-text-bytes; empty = attend/tokens "
       "in "
       "the user's cache",
       0, 0, data_field<&DataConfig::token_dir>},

      {"model", "num_layers", "BLOCKS", kSizeGroup,
       "number of transformer blocks; 0 = embeddings and head only", 0, 1000,
       stack_field<&StackConfig::num_layers>},
      {"model", "num_heads", "HEADS", kAttentionGroup, "number of attention heads per block", 1,
       kMaxSize, stack_field<&StackConfig::num_heads>},
      {"model", "num_kv_heads", "HEADS", kAttentionGroup,
       "number of key-value heads, a divisor of num_heads; 0 = num_heads", 0, kMaxSize,
       stack_field<&StackConfig::num_kv_heads>},
      {"model", "head_dim", "CHANNELS", kAttentionGroup,
       "dimension of a head; 0 means embed_dim / num_heads", 0, kMaxSize,
       stack_field<&StackConfig::head_dim>},
      {"model", "embed_dim", "CHANNELS", kSizeGroup, "embedding dimension", 1, kMaxSize,
       stack_field<&StackConfig::embed_dim>},
      {"model", "dim_feedforward", "CHANNELS", kFeedForwardGroup,
       "hidden dimension of the feed-forward layer; 0 means 4 * embed_dim", 0, kMaxSize,
       stack_field<&StackConfig::dim_feedforward>},
      {"model", "activation", "", kFeedForwardGroup, "activation of the feed-forward layer", 0, 0,
       activation_field},
      {"model", "num_experts", "EXPERTS", kFeedForwardGroup,
       "number of experts in a mixture of experts; 0 = one dense feed-forward layer", 0, 1024,
       stack_field<&StackConfig::num_experts>},
      {"model", "num_experts_per_tok", "EXPERTS", kFeedForwardGroup, "number of experts per token",
       1, 1024, stack_field<&StackConfig::num_experts_per_tok>},
      {"model", "norm_topk_prob", "", kFeedForwardGroup,
       "divide the weights of a token's experts by their sum", 0, 1,
       stack_field<&StackConfig::norm_topk_prob>},
      {"model", "max_seq_len", "TOKENS", kSizeGroup, "maximum sequence length", 1, kMaxLength,
       model_field<&LanguageModelConfig::max_seq_len, &SequenceClassifierConfig::max_seq_len,
                   &Seq2SeqConfig::max_seq_len>},
      {"model", "dropout", "PROBABILITY", kDropoutGroup, "dropout probability", 0, 0.99,
       stack_field<&StackConfig::dropout>},
      {"model", "stochastic_depth", "PROBABILITY", kDropoutGroup,
       "probability of skipping a residual branch of the last block; lower for earlier blocks", 0,
       0.99, stack_field<&StackConfig::stochastic_depth>},
      {"model", "bias", "", "Model", "biases in the linear layers and norms of the blocks", 0, 1,
       stack_field<&StackConfig::bias>},
      {"model", "qkv_bias", "", kAttentionGroup,
       "biases in the query, key and value projections even if bias is off (Qwen2)", 0, 1,
       stack_field<&StackConfig::qkv_bias>},
      {"model", "tie_embeddings", "", "Model",
       "share weights between token embedding and output head", 0, 1,
       model_field<&LanguageModelConfig::tie_embeddings, &Seq2SeqConfig::tie_embeddings>},
      {"model", "logit_scale", "FACTOR", "Model", "factor by which the logits are multiplied", -1e9,
       1e9, model_field<&LanguageModelConfig::logit_scale, &Seq2SeqConfig::logit_scale>},
      {"model", "final_logit_soft_cap", "", "Model",
       "soft cap c of the logits: computes c * tanh(logits / c); 0 = no cap", 0, 1e9,
       model_field<&LanguageModelConfig::final_logit_soft_cap,
                   &Seq2SeqConfig::final_logit_soft_cap>},
      {"model", "type_vocab_size", "TYPES", "Model",
       "number of token types, such as 2 for the two segments of BERT; 0 = none", 0, kMaxSize,
       model_field<&SequenceClassifierConfig::type_vocab_size>},
      {"model", "pooling", "", "Model",
       "pooling of the sequence for classification; none = classify each token", 0, 0,
       model_field<&SequenceClassifierConfig::pooling>},
      {"model", "pooler", "", "Model", "linear layer with tanh after pooling (BERT)", 0, 1,
       model_field<&SequenceClassifierConfig::pooler>},
      {"model", "normalize", "", "Model", "divide the pooled vector by its L2 norm", 0, 1,
       model_field<&SequenceClassifierConfig::normalize>},
      {"model", "masked_lm", "", "Model",
       "predict masked tokens instead of classes (BERT); set by the task", 0, 1,
       model_field<&SequenceClassifierConfig::masked_lm>},
      {"model", "num_decoder_layers", "BLOCKS", kSizeGroup,
       "number of decoder blocks; -1 = num_layers", -1, 1000,
       model_field<&Seq2SeqConfig::num_decoder_layers>},
      {"model", "embedding_scale", "FACTOR", "Model",
       "factor by which token embeddings are multiplied, such as the square root of embed_dim",
       -1e9, 1e9, stack_field<&StackConfig::embedding_scale>},
      {"model", "embedding_norm", "", kResidualGroup,
       "normalization layer after the embeddings (BERT)", 0, 1,
       stack_field<&StackConfig::embedding_norm>},
      {"model", "positions", "", kPositionsGroup, "position encoding", 0, 0,
       stack_field<&StackConfig::positions>},
      {"model", "rotary_theta", "", kPositionsGroup, "base of the rotary frequencies", 1, 1e12,
       stack_field<&StackConfig::rotary, &RotaryOptions::theta>},
      {"model", "rotary_dim", "CHANNELS", kPositionsGroup,
       "number of rotated channels per head, even; 0 = all", 0, kMaxSize,
       stack_field<&StackConfig::rotary, &RotaryOptions::rotary_dim>},
      {"model", "rotary_interleaved", "", kPositionsGroup,
       "rotate pairs of adjacent channels (GPT-J) instead of pairs with one channel from each half "
       "of the rotated channels (GPT-NeoX, Llama)",
       0, 1, stack_field<&StackConfig::rotary, &RotaryOptions::interleaved>},
      {"model", "rotary_scaling", "", kPositionsGroup, "rotary scaling for longer sequences", 0, 0,
       stack_field<&StackConfig::rotary, &RotaryOptions::scaling>},
      {"model", "rotary_factor", "FACTOR", kPositionsGroup, "rotary scaling factor", 1, 1e6,
       stack_field<&StackConfig::rotary, &RotaryOptions::factor>},
      {"model", "rotary_original_max_seq_len", "TOKENS", kPositionsGroup,
       "yarn, llama3: maximum sequence length of the training without rotary scaling", 0,
       kMaxInteger, stack_field<&StackConfig::rotary, &RotaryOptions::original_max_seq_len>},
      {"model", "rotary_beta_fast", "ROTATIONS", kPositionsGroup,
       "yarn: channel pairs with more rotations than this in rotary_original_max_seq_len tokens "
       "are not scaled",
       0, 1e9, stack_field<&StackConfig::rotary, &RotaryOptions::beta_fast>},
      {"model", "rotary_beta_slow", "ROTATIONS", kPositionsGroup,
       "yarn: the frequency of channel pairs with fewer rotations than this in "
       "rotary_original_max_seq_len tokens is divided by rotary_factor",
       0, 1e9, stack_field<&StackConfig::rotary, &RotaryOptions::beta_slow>},
      {"model", "rotary_truncate", "", kPositionsGroup,
       "yarn: round the first and last index of the partly scaled channel pairs to integers", 0, 1,
       stack_field<&StackConfig::rotary, &RotaryOptions::truncate>},
      {"model", "rotary_attention_factor", "FACTOR", kPositionsGroup,
       "yarn: factor by which cos and sin are multiplied; 0 means the factor 0.1 * "
       "ln(rotary_factor) + 1",
       0, 1e6, stack_field<&StackConfig::rotary, &RotaryOptions::attention_factor>},
      {"model", "rotary_low_freq_factor", "ROTATIONS", kPositionsGroup,
       "llama3: the frequency of channel pairs with fewer rotations than this in "
       "rotary_original_max_seq_len tokens is divided by rotary_factor",
       0, 1e9, stack_field<&StackConfig::rotary, &RotaryOptions::low_freq_factor>},
      {"model", "rotary_high_freq_factor", "ROTATIONS", kPositionsGroup,
       "llama3: channel pairs with more rotations than this in rotary_original_max_seq_len tokens "
       "are not scaled",
       0, 1e9, stack_field<&StackConfig::rotary, &RotaryOptions::high_freq_factor>},
      {"model", "relative_attention_num_buckets", "BUCKETS", kPositionsGroup,
       "number of distance buckets of relative positions (T5)", 2, kMaxInteger,
       stack_field<&StackConfig::relative_bias, &RelativeBiasOptions::num_buckets>},
      {"model", "relative_attention_max_distance", "TOKENS", kPositionsGroup,
       "all distances of at least this many tokens share one bucket (T5)", 1, kMaxInteger,
       stack_field<&StackConfig::relative_bias, &RelativeBiasOptions::max_distance>},
      {"model", "relative_attention_shared", "", kPositionsGroup,
       "use the relative position bias of the first layer in all layers (T5)", 0, 1,
       stack_field<&StackConfig::relative_attention_shared>},
      {"model", "attention_scale", "FACTOR", kAttentionGroup,
       "factor by which attention scores are multiplied; 0 means 1 / sqrt(head_dim)", 0, 1e9,
       stack_field<&StackConfig::attention_scale>},
      {"model", "sliding_window", "TOKENS", kAttentionGroup,
       "sliding window of attention, including the token itself; 0 = full attention", 0,
       kMaxInteger, stack_field<&StackConfig::sliding_window>},
      {"model", "sliding_window_pattern", "TOKENS,...", kAttentionGroup,
       "sliding windows of consecutive layers, repeated for later layers; 4096,0 alternates a "
       "window of 4096 with full attention (Gemma 2)",
       0, kMaxInteger, stack_field<&StackConfig::sliding_window_pattern>},
      {"model", "soft_cap", "", kAttentionGroup,
       "soft cap c of the attention scores: computes c * tanh(scores / c); 0 = no cap", 0, 1e9,
       stack_field<&StackConfig::soft_cap>},
      {"model", "qk_norm", "", kAttentionGroup, "normalization of queries and keys", 0, 0,
       stack_field<&StackConfig::qk_norm>},
      {"model", "output_gate", "", kAttentionGroup, "sigmoid gate on each head's output", 0, 1,
       stack_field<&StackConfig::output_gate>},
      {"model", "attention_sinks", "", kAttentionGroup, "learned attention sink per head", 0, 1,
       stack_field<&StackConfig::attention_sinks>},
      {"model", "smeared_keys", "", kAttentionGroup,
       "mix each key with the previous key, with a learned weight", 0, 1,
       stack_field<&StackConfig::smeared_keys>},
      {"model", "value_residual", "", kAttentionGroup,
       "mix the values of each layer with the values of the first layer", 0, 1,
       stack_field<&StackConfig::value_residual>},
      {"model", "norm", "", kResidualGroup, "normalization layer: LayerNorm or RMSNorm", 0, 0,
       stack_field<&StackConfig::norm>},
      {"model", "norm_eps", "", kResidualGroup,
       "epsilon of the normalization layers, including those of qk_norm = rms", 0, 1,
       stack_field<&StackConfig::norm_eps>},
      {"model", "norm_order", "", kResidualGroup, "placement of the normalization layers", 0, 0,
       stack_field<&StackConfig::norm_order>},
      {"model", "final_norm", "", kResidualGroup, "normalization layer after the last block", 0, 1,
       stack_field<&StackConfig::final_norm>},
      {"model", "branch_scale", "", kResidualGroup, "learned scale of the residual branches", 0, 0,
       stack_field<&StackConfig::branch_scale>},
      {"model", "residual_scale", "FACTOR", kResidualGroup,
       "constant scale of the residual branches", 0, 1e6,
       stack_field<&StackConfig::residual_scale>},
      {"model", "gradient_checkpointing", "", "Model",
       "recompute activations in the backward pass, to use less memory", 0, 1,
       stack_field<&StackConfig::gradient_checkpointing>},
      {"model", "initialization", "", "Model", "weight initialization", 0, 0,
       stack_field<&StackConfig::initialization>},

      {"lora", "lora_rank", "", kLoraGroup,
       "rank of the adapters, which are trained instead of the weights; requires --init-from; 0 = "
       "train all weights",
       0, 4096, lora_field<&LoraConfig::rank>},
      {"lora", "lora_alpha", "", kLoraGroup,
       "scale of the adapters: their products are multiplied by alpha / rank", 1e-6, 1e6,
       lora_field<&LoraConfig::alpha>},
      {"lora", "lora_dropout", "FRACTION", kLoraGroup, "dropout of the input of the adapters", 0,
       0.99, lora_field<&LoraConfig::dropout>},
      {"lora", "lora_targets", "NAME,...", kLoraGroup,
       "names of the linear layers with adapters, or of modules that contain them: qkv, query, "
       "key, "
       "value, out, feed_forward, up, gate, down, head, ...",
       0, 0, lora_field<&LoraConfig::targets>},
      {"lora", "lora_rslora", "", kLoraGroup, "multiply by alpha / sqrt(rank) instead", 0, 1,
       lora_field<&LoraConfig::rslora>},

      {"training", "max_steps", "STEPS", kLengthGroup, "number of optimizer steps", 1, kMaxInteger,
       training_field<&TrainingConfig::max_steps>},
      {"training", "batch_size", "SEQUENCES", kLengthGroup,
       "batch size of a forward and backward pass", 1, kMaxSize,
       training_field<&TrainingConfig::batch_size>},
      {"training", "gradient_accumulation_steps", "BATCHES", kLengthGroup,
       "batches per optimizer step; the global batch size is batch_size times this number", 1,
       kMaxSize, training_field<&TrainingConfig::gradient_accumulation_steps>},
      {"training", "lr", "", kOptimizerGroup, "peak learning rate", 0, 10,
       training_field<&TrainingConfig::lr>},
      {"training", "schedule", "", kOptimizerGroup, "learning rate schedule after the warm-up", 0,
       0, training_field<&TrainingConfig::schedule>},
      {"training", "min_lr_ratio", "FRACTION", kOptimizerGroup,
       "final learning rate as a fraction of lr", 0, 1,
       training_field<&TrainingConfig::min_lr_ratio>},
      {"training", "warmup_steps", "STEPS", kOptimizerGroup, "linear warm-up of the learning rate",
       0, kMaxInteger, training_field<&TrainingConfig::warmup_steps>},
      {"training", "cooldown_fraction", "FRACTION", kOptimizerGroup,
       "wsd schedule: fraction of the steps in which the learning rate decays", 0, 1,
       training_field<&TrainingConfig::cooldown_fraction>},
      {"training", "optimizer", "", kOptimizerGroup,
       "optimizer; muon = Muon for the hidden matrices, AdamW for all other parameters", 0, 0,
       training_field<&TrainingConfig::optimizer>},
      {"training", "weight_decay", "", kOptimizerGroup,
       "decoupled weight decay of matrices and embeddings", 0, 10,
       training_field<&TrainingConfig::weight_decay>},
      {"training", "beta1", "", kOptimizerGroup, "AdamW beta1", 0, 0.9999999,
       training_field<&TrainingConfig::beta1>},
      {"training", "beta2", "", kOptimizerGroup, "AdamW beta2", 0, 0.9999999,
       training_field<&TrainingConfig::beta2>},
      {"training", "momentum", "", kOptimizerGroup, "Muon momentum", 0, 0.9999999,
       training_field<&TrainingConfig::momentum>},
      {"training", "max_grad_norm", "", kOptimizerGroup,
       "gradient clipping: maximum norm; 0 = no clipping", 0, 1e9,
       training_field<&TrainingConfig::max_grad_norm>},
      {"training", "label_smoothing", "FRACTION", kOptimizerGroup, "label smoothing", 0, 0.99,
       training_field<&TrainingConfig::label_smoothing>},
      {"training", "router_aux_loss_coef", "", kOptimizerGroup,
       "coefficient of the load-balancing loss of a mixture of experts", 0, 100,
       training_field<&TrainingConfig::router_aux_loss_coef>},
      {"training", "precision", "", "Training",
       "precision of the forward and backward pass; bf16 and fp16 are mixed precision with fp32 "
       "weights, fp16 with dynamic loss scaling",
       0, 0, training_field<&TrainingConfig::precision>},
      {"training", "on_nonfinite", "", "Training",
       "action at a step whose loss or gradient is NaN or infinite", 0, 0,
       training_field<&TrainingConfig::on_nonfinite>},
      {"training", "eval_every", "STEPS", kReportsGroup, "steps between evaluations", 1,
       kMaxInteger, training_field<&TrainingConfig::eval_every>},
      {"training", "eval_batches", "BATCHES", kReportsGroup,
       "maximum number of batches of 64 sequences in an evaluation during training, spread evenly "
       "over the validation data; the best weights are evaluated on all validation data at the "
       "end; 0 = no maximum",
       0, kMaxInteger, training_field<&TrainingConfig::eval_batches>},
      {"training", "best_metric", "", kLengthGroup,
       "validation metric that selects the best weights and that patience follows; f1 = macro F1 "
       "of a classifier, or F1 of entities",
       0, 0, training_field<&TrainingConfig::best_metric>},
      {"training", "patience", "EVALUATIONS", kLengthGroup,
       "early stopping after this number of evaluations without a better validation metric "
       "(--best-metric); 0 = off",
       0, kMaxInteger, training_field<&TrainingConfig::patience>},
      {"training", "checkpoint_every", "STEPS", kReportsGroup, "steps between checkpoints", 1,
       kMaxInteger, training_field<&TrainingConfig::checkpoint_every>},
      {"training", "log_every", "STEPS", kReportsGroup, "steps between progress reports", 1,
       kMaxInteger, training_field<&TrainingConfig::log_every>},
      {"training", "seed", "", "Training", "random seed of weights, batches and dropout", 0,
       kMaxInteger, training_field<&TrainingConfig::seed>},
      {"training", "threads", "THREADS", "Training",
       "number of CPU threads; auto = the fastest number, measured when training starts", 0, 1024,
       training_field<&TrainingConfig::threads>, "auto"},
      {"training", "device", "DEVICE", "Training",
       "device: cpu, cuda, cuda:N, or auto = a GPU if there is one", 0, 0,
       training_field<&TrainingConfig::device>},
  };
  return fields;
}

bool RecipeField::is_paths() const {
  return std::holds_alternative<std::vector<std::string>>(field_value(*this, Recipe{}));
}

std::vector<std::vector<std::string>*> paths_of(Recipe& recipe) {
  std::vector<std::vector<std::string>*> lists;
  for (const auto& field : recipe_fields()) {
    const auto ref = field.ref(recipe);
    if (const auto* paths = std::get_if<std::vector<std::string>*>(&ref)) lists.push_back(*paths);
  }
  return lists;
}

FieldValue field_value(const RecipeField& field, const Recipe& recipe) {
  return std::visit(
      [&](auto value) -> FieldValue {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return value;
        else if constexpr (std::is_enum_v<T>)
          return std::string(to_string(*value));
        else if constexpr (std::is_same_v<T, int64_t>)
          return *value == 0 && *field.zero != '\0' ? FieldValue(std::string(field.zero))
                                                    : FieldValue(*value);
        else
          return *value;
      },
      field.ref(const_cast<Recipe&>(recipe)));  // is only read
}

void check_range(const RecipeField& field, const Recipe& recipe, const std::string& name) {
  std::visit(CheckRange{field, name}, field_value(field, recipe));
}

std::string paths_text(const std::vector<std::string>& paths) {
  constexpr std::size_t kShown = 2;
  const auto shown = std::min(kShown, paths.size());
  const auto text = fmt::format("{}", fmt::join(paths.begin(), paths.begin() + shown, ", "));
  return paths.size() == shown ? text : fmt::format("{} and {} more", text, paths.size() - shown);
}

std::string value_text(const RecipeField& field, const Recipe& recipe) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return std::string();
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(value ? "on" : "off");
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return value.empty() ? "none" : fmt::format("{}", fmt::join(value, ","));
        else if constexpr (std::is_same_v<T, std::vector<std::string>>)
          return value.empty() ? "none" : paths_text(value);
        else
          return fmt::format("{}", value);
      },
      field_value(field, recipe));
}

}  // namespace attend::train
