#include "recipe_help.h"

#include <algorithm>
#include <array>

namespace attend::app {
namespace {

struct FieldHelp {
  std::string_view key;
  const char* group;
  const char* unit;  ///< empty for a pure number, and for what is none
};

constexpr const char* kData = "Data";
constexpr const char* kSize = "Model, size";
constexpr const char* kAttention = "Model, attention";
constexpr const char* kFeedForward = "Model, feed-forward";
constexpr const char* kPositions = "Model, positions";
constexpr const char* kResidual = "Model, norms and residual branches";
constexpr const char* kDropping = "Model, dropout";
constexpr const char* kLength = "Training, length and batches";
constexpr const char* kOptimizer = "Training, optimizer";
constexpr const char* kReports = "Training, reports";

/// What is not here stands in the group of its section, and has no unit.
constexpr std::array kFields{
    FieldHelp{"num_layers", kSize, "BLOCKS"},
    FieldHelp{"num_decoder_layers", kSize, "BLOCKS"},
    FieldHelp{"embed_dim", kSize, "CHANNELS"},
    FieldHelp{"max_seq_len", kSize, "TOKENS"},
    FieldHelp{"num_heads", kAttention, "HEADS"},
    FieldHelp{"num_kv_heads", kAttention, "HEADS"},
    FieldHelp{"head_dim", kAttention, "CHANNELS"},
    FieldHelp{"sliding_window", kAttention, "TOKENS"},
    FieldHelp{"soft_cap", kAttention, ""},
    FieldHelp{"qk_norm", kAttention, ""},
    FieldHelp{"output_gate", kAttention, ""},
    FieldHelp{"attention_sinks", kAttention, ""},
    FieldHelp{"smeared_keys", kAttention, ""},
    FieldHelp{"value_residual", kAttention, ""},
    FieldHelp{"dim_feedforward", kFeedForward, "CHANNELS"},
    FieldHelp{"activation", kFeedForward, ""},
    FieldHelp{"num_experts", kFeedForward, "EXPERTS"},
    FieldHelp{"num_experts_per_tok", kFeedForward, "EXPERTS"},
    FieldHelp{"positions", kPositions, ""},
    FieldHelp{"rotary_theta", kPositions, ""},
    FieldHelp{"rotary_dim", kPositions, "CHANNELS"},
    FieldHelp{"rotary_interleaved", kPositions, ""},
    FieldHelp{"rotary_scaling", kPositions, ""},
    FieldHelp{"rotary_factor", kPositions, "FACTOR"},
    FieldHelp{"rotary_original_max_seq_len", kPositions, "TOKENS"},
    FieldHelp{"relative_attention_num_buckets", kPositions, "BUCKETS"},
    FieldHelp{"relative_attention_max_distance", kPositions, "TOKENS"},
    FieldHelp{"norm", kResidual, ""},
    FieldHelp{"norm_eps", kResidual, ""},
    FieldHelp{"norm_order", kResidual, ""},
    FieldHelp{"branch_scaling", kResidual, ""},
    FieldHelp{"residual_scale", kResidual, "FACTOR"},
    FieldHelp{"dropout", kDropping, "PROBABILITY"},
    FieldHelp{"stochastic_depth", kDropping, "PROBABILITY"},
    FieldHelp{"length", kData, "SYMBOLS"},
    FieldHelp{"symbols", kData, "SYMBOLS"},
    FieldHelp{"val_fraction", kData, "SHARE"},
    FieldHelp{"tokenizer", kData, ""},
    FieldHelp{"vocab_size", kData, "TOKENS"},
    FieldHelp{"max_steps", kLength, "STEPS"},
    FieldHelp{"batch_size", kLength, "SEQUENCES"},
    FieldHelp{"gradient_accumulation_steps", kLength, "PASSES"},
    FieldHelp{"patience", kLength, "EVALUATIONS"},
    FieldHelp{"schedule", kOptimizer, ""},
    FieldHelp{"cooldown_fraction", kOptimizer, "SHARE"},
    FieldHelp{"optimizer", kOptimizer, ""},
    FieldHelp{"momentum", kOptimizer, ""},
    FieldHelp{"label_smoothing", kOptimizer, "SHARE"},
    FieldHelp{"lr", kOptimizer, ""},
    FieldHelp{"min_lr_ratio", kOptimizer, "SHARE"},
    FieldHelp{"warmup_steps", kOptimizer, "STEPS"},
    FieldHelp{"weight_decay", kOptimizer, ""},
    FieldHelp{"beta1", kOptimizer, ""},
    FieldHelp{"beta2", kOptimizer, ""},
    FieldHelp{"max_grad_norm", kOptimizer, ""},
    FieldHelp{"router_aux_loss_coef", kOptimizer, ""},
    FieldHelp{"eval_every", kReports, "STEPS"},
    FieldHelp{"log_every", kReports, "STEPS"},
    FieldHelp{"checkpoint_every", kReports, "STEPS"},
    FieldHelp{"threads", "Training", "THREADS"},
};

const FieldHelp* find(const train::RecipeField& field) {
  const auto* found = std::find_if(kFields.begin(), kFields.end(),
                                   [&](const auto& help) { return help.key == field.key; });
  return found == kFields.end() ? nullptr : found;
}

}  // namespace

std::string group_of(const train::RecipeField& field) {
  if (const auto* help = find(field)) return help->group;
  const std::string section = field.section;
  if (section == "model") return "Model";
  if (section == "training") return "Training";
  return section == "data" ? kData : "Task";
}

std::string unit_of(const train::RecipeField& field) {
  const auto* help = find(field);
  return help == nullptr ? "" : help->unit;
}

}  // namespace attend::app
