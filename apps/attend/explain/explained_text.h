#pragma once

#include "attend/train/run_directory.h"

#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {

/// Intermediate values of one forward pass.
struct ForwardPass {
  torch::Tensor memory;                ///< (S, E), output of the encoder of a Seq2Seq
  std::vector<torch::Tensor> vectors;  ///< (T, E): those of the tokens, and after each layer
  std::vector<torch::Tensor> weights;  ///< (H, S), of one token in each layer; of a Seq2Seq, of the
                                       ///< cross-attention
  torch::Tensor first_values;          ///< see ForwardState
  torch::Tensor first_relative_bias;   ///< see ForwardState
  torch::Tensor logits;                ///< (N), of the tokens that may follow, or of the classes
};

/// A head of a layer, both counted from 0. In the decoder of a Seq2Seq, a head of the
/// cross-attention.
struct HeadPlace {
  int64_t layer;
  int64_t head;
};

/// A text and the model of a run, which is a stack of blocks between an embedding and logits. A
/// Seq2Seq reads the text with its encoder; the stack is then that of the decoder, and its tokens
/// are those of the answer.
class ExplainedText {
 public:
  /// `answer`: beginning of the answer of a Seq2Seq; std::nullopt = the answer that the model
  /// generates. Throws InputError for a text without tokens or with more than max_seq_len tokens,
  /// for an answer if the model is not a Seq2Seq, and for a model without layers. Merges the
  /// adapters of the model.
  ExplainedText(train::Run& run, const std::string& text, const std::optional<std::string>& answer);

  /// Runs the model, without the output of `no_heads`. Weights and logits are those of the token
  /// number `row`.
  ForwardPass forward(int64_t row) const;

  bool is_seq2seq() const { return std::holds_alternative<Seq2Seq>(run.model); }
  int64_t num_layers() const { return static_cast<int64_t>(blocks->size()); }
  int64_t num_heads() const { return run.recipe.stack().num_heads; }
  /// Returns the tokens of the stack (T).
  const torch::Tensor& tokens() const { return is_seq2seq() ? answer_tokens : text; }
  AttentionArgs self_attention_args() const;

  train::Run& run;
  TokenEmbedding embedding{nullptr};
  torch::nn::ModuleList blocks;          ///< TransformerBlocks or DecoderBlocks
  torch::nn::AnyModule norm;             ///< after the last block; may be empty
  torch::Tensor text;                    ///< (S), tokens of the text
  std::vector<std::string> text_labels;  ///< S different labels
  torch::Tensor text_mask;               ///< bool (S), true = may be attended to; undefined = all
  torch::Tensor answer_tokens;  ///< (T), tokens of the answer of a Seq2Seq, after the begin token
  std::vector<std::string> labels;  ///< T different labels of the tokens of the stack
  std::vector<HeadPlace> no_heads;  ///< whose output is zero
};

}  // namespace attend::app
