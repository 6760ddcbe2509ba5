// BERT (Devlin et al. 2018), RoBERTa (Liu et al. 2019) and DistilBERT (Sanh et al. 2019).
#include "pretrained/architecture.h"

#include <fmt/format.h>

namespace attend {
namespace {

/// The position of the first token of RoBERTa, after padding_idx = 1.
constexpr int64_t kRobertaOffset = 2;

SequenceClassifierConfig post_norm_encoder() {
  SequenceClassifierConfig config;
  config.stack.norm_order = NormOrder::post;
  config.stack.final_norm = false;
  config.stack.embedding_norm = true;
  config.stack.norm_eps = 1e-12;
  return config;
}

/// Reads or writes the number of classes of a class such as BertForSequenceClassification.
void declare_head(ConfigKeys& keys, SequenceClassifierConfig& config) {
  const bool of_tokens = keys.class_name().ends_with(kTokenClassification);
  if (!of_tokens && !keys.class_name().ends_with(kClassification)) return;
  // transformers refuses this problem type for one class, whose logit is a score.
  if (!of_tokens && (keys.reads() || config.num_classes > 1))
    keys.require("problem_type", "single_label_classification");
  if (!keys.reads()) return;
  constexpr int64_t kDefaultLabels = 2;
  auto& reader = keys.reader();
  config.num_classes = reader.has("id2label") ? std::ssize(reader.object("id2label").json())
                                              : reader.size("num_labels", kDefaultLabels);
  config.pooling = of_tokens ? Pooling::none : Pooling::first;
  config.pooler = !of_tokens;
}

void declare_bert(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<SequenceClassifierConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.vocab_size, 30522);
  keys.size("max_position_embeddings", config.max_seq_len, 512);
  keys.size("type_vocab_size", config.type_vocab_size, 2);
  keys.size("hidden_size", stack.embed_dim, 768);
  keys.size("num_hidden_layers", stack.num_layers, 12, 1, kMaxCount);
  keys.size("num_attention_heads", stack.num_heads, 12);
  keys.size("intermediate_size", stack.dim_feedforward, 3072);
  keys.activation("hidden_act", stack.activation, "gelu", kActivations);
  keys.number("layer_norm_eps", stack.norm_eps, 1e-12);
  keys.require("position_embedding_type", "absolute");
  keys.ignore({"hidden_dropout_prob", "attention_probs_dropout_prob", "tie_word_embeddings",
               "directionality", "pooler_fc_size", "pooler_num_attention_heads",
               "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  declare_head(keys, config);
}

void declare_roberta(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<SequenceClassifierConfig>(any);
  if (!keys.reads()) config.max_seq_len += kRobertaOffset;
  declare_bert(keys, any);
  if (keys.reads() && config.max_seq_len <= kRobertaOffset) {
    keys.reader().throw_unexpected("max_position_embeddings",
                                   fmt::format("more than {}", kRobertaOffset));
  }
  config.max_seq_len -= kRobertaOffset;
  keys.require("pad_token_id", 1);
}

void declare_distilbert(ConfigKeys& keys, ModelConfig& any) {
  auto& config = std::get<SequenceClassifierConfig>(any);
  auto& stack = config.stack;
  keys.size("vocab_size", config.vocab_size, 30522);
  keys.size("max_position_embeddings", config.max_seq_len, 512);
  keys.size("dim", stack.embed_dim, 768);
  keys.size("n_layers", stack.num_layers, 6, 1, kMaxCount);
  keys.size("n_heads", stack.num_heads, 12);
  keys.size("hidden_dim", stack.dim_feedforward, 3072);
  keys.activation("activation", stack.activation, "gelu", kActivations);
  keys.ignore({"tie_weights_", "dropout", "qa_dropout", "seq_classif_dropout",
               "sinusoidal_pos_embds", "tie_word_embeddings"});
  declare_head(keys, config);
}

/// Names of the modules of a block in a file.
struct BlockNames {
  const char* blocks;
  const char* query;
  const char* key;
  const char* value;
  const char* out;
  const char* norm1;
  const char* up;
  const char* down;
  const char* norm2;
};

WeightRows encoder_weights(const SequenceClassifierConfig& config, const BlockNames& names,
                           const WeightLayout& positions = {}) {
  WeightRows rows;
  const auto& stack = config.stack;
  const auto width = stack.embed_dim;
  const auto embedding = rows.inside("embedding.", "embeddings.");
  embedding.embedding("token", "word_embeddings", config.vocab_size, width);
  embedding.embedding("position", "position_embeddings", config.max_seq_len, width, positions);
  if (config.type_vocab_size > 0)
    embedding.embedding("token_type", "token_type_embeddings", config.type_vocab_size, width);
  embedding.norm("norm", "LayerNorm", width, true);
  for (int64_t i = 0; i < stack.num_layers; ++i) {
    const auto block =
        rows.inside(fmt::format("encoder.blocks.{}.", i), fmt::format("{}.{}.", names.blocks, i));
    block.linear("attention.qkv", {{names.query, width}, {names.key, width}, {names.value, width}},
                 width, true);
    block.linear("attention.out", {{names.out, width}}, width, true);
    block.norm("norm1", names.norm1, width, true);
    block.linear("feed_forward.up", {{names.up, stack.dim_feedforward}}, width, true);
    block.linear("feed_forward.down", {{names.down, width}}, stack.dim_feedforward, true);
    block.norm("norm2", names.norm2, width, true);
  }
  return rows;
}

constexpr BlockNames kBert{.blocks = "encoder.layer",
                           .query = "attention.self.query",
                           .key = "attention.self.key",
                           .value = "attention.self.value",
                           .out = "attention.output.dense",
                           .norm1 = "attention.output.LayerNorm",
                           .up = "intermediate.dense",
                           .down = "output.dense",
                           .norm2 = "output.LayerNorm"};
constexpr BlockNames kDistilBert{.blocks = "transformer.layer",
                                 .query = "attention.q_lin",
                                 .key = "attention.k_lin",
                                 .value = "attention.v_lin",
                                 .out = "attention.out_lin",
                                 .norm1 = "sa_layer_norm",
                                 .up = "ffn.lin1",
                                 .down = "ffn.lin2",
                                 .norm2 = "output_layer_norm"};

/// Names of what comes after the blocks.
struct HeadNames {
  const char* pooler;
  const char* head;  ///< of a classifier of sequences; that of tokens is "classifier"
  const char* lm_dense;
  const char* lm_norm;
  const char* lm_bias;
};

constexpr HeadNames kBertHeads{.pooler = "pooler.dense",
                               .head = "classifier",
                               .lm_dense = "cls.predictions.transform.dense",
                               .lm_norm = "cls.predictions.transform.LayerNorm",
                               .lm_bias = "cls.predictions.bias"};
constexpr HeadNames kRobertaHeads{.pooler = "classifier.dense",
                                  .head = "classifier.out_proj",
                                  .lm_dense = "lm_head.dense",
                                  .lm_norm = "lm_head.layer_norm",
                                  .lm_bias = "lm_head.bias"};
constexpr HeadNames kDistilBertHeads{.pooler = "pre_classifier",
                                     .head = "classifier",
                                     .lm_dense = "vocab_transform",
                                     .lm_norm = "vocab_layer_norm",
                                     .lm_bias = "vocab_projector.bias"};

/// Adds the pooler and the heads.
WeightRows with_heads(const WeightRows& rows, const SequenceClassifierConfig& config,
                      const HeadNames& names) {
  const auto width = config.stack.embed_dim;
  if (config.pooler) rows.linear("pooler", {{names.pooler, width}}, width, true);
  const char* head = config.pooling == Pooling::none ? "classifier" : names.head;
  if (config.num_classes > 0) rows.linear("head", {{head, config.num_classes}}, width, true);
  if (!config.masked_lm) return rows;
  rows.linear("lm_dense", {{names.lm_dense, width}}, width, true);
  rows.norm("lm_norm", names.lm_norm, width, true);
  rows.vector("lm_bias", names.lm_bias, config.vocab_size);
  return rows;
}

WeightRows bert_weights(const ModelConfig& any) {
  const auto& config = std::get<SequenceClassifierConfig>(any);
  return with_heads(encoder_weights(config, kBert), config, kBertHeads);
}

WeightRows roberta_weights(const ModelConfig& any) {
  const auto& config = std::get<SequenceClassifierConfig>(any);
  return with_heads(encoder_weights(config, kBert, {WeightLayout::skip_rows, kRobertaOffset}),
                    config, kRobertaHeads);
}

WeightRows distilbert_weights(const ModelConfig& any) {
  const auto& config = std::get<SequenceClassifierConfig>(any);
  return with_heads(encoder_weights(config, kDistilBert), config, kDistilBertHeads);
}

}  // namespace

std::vector<Architecture> bert_architectures() {
  // The pooler, if the model does not use it, and the heads of pretraining.
  const std::vector<std::string> bert_ignored{
      "embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.", "cls.", "lm_head."};
  return {
      {.model_type = "bert",
       .classes = {"BertModel", "BertForMaskedLM", "BertForPreTraining",
                   "BertForSequenceClassification", "BertForTokenClassification"},
       .prefix = "bert.",
       .head = "classifier.",
       .lm_head = "cls.",
       .base = post_norm_encoder(),
       .declare = declare_bert,
       .weights = bert_weights,
       .ignored = bert_ignored},
      {.model_type = "roberta",
       .classes = {"RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification",
                   "RobertaForTokenClassification"},
       .prefix = "roberta.",
       .head = "classifier.",
       .lm_head = "lm_head.",
       .base = post_norm_encoder(),
       .declare = declare_roberta,
       .weights = roberta_weights,
       .ignored = bert_ignored,
       .padding_token = kRobertaOffset - 1},
      {.model_type = "distilbert",
       .classes = {"DistilBertModel", "DistilBertForMaskedLM", "DistilBertForTokenClassification"},
       .prefix = "distilbert.",
       .head = "classifier.",
       .lm_head = "vocab_",
       .base = post_norm_encoder(),
       .declare = declare_distilbert,
       .weights = distilbert_weights,
       .ignored = {"embeddings.position_ids", "vocab_transform.", "vocab_layer_norm.",
                   "vocab_projector."}}};
}

}  // namespace attend
