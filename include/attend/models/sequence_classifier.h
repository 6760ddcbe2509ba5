#pragma once

#include "attend/models/stack_config.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// How a sequence becomes one vector.
enum class Pooling {
  mean,   ///< the mean of its tokens' vectors
  max,    ///< the largest of each channel
  first,  ///< the vector of its first token, as in BERT
};

/// All that a `SequenceClassifier` is made of.
///
///     SequenceClassifierConfig{.vocab_size = 65, .num_classes = 3, .stack = {.num_layers = 4}}
struct SequenceClassifierConfig {
  int64_t vocab_size = 0;    ///< number of tokens V; must be set
  int64_t num_classes = 0;   ///< number of classes C; must be set
  int64_t max_seq_len = 64;  ///< longest sequence, in tokens
  Pooling pooling = Pooling::mean;
  StackConfig stack = {};  ///< its blocks
};

/// An encoder that puts a whole sequence into one of C classes: token embedding with positions,
/// transformer blocks that look both ways, a final norm, pooling, and a head.
///
/// State dict: `embedding` (TokenEmbedding), `encoder` (TransformerEncoder), `head` (Linear).
///
///     SequenceClassifier model(SequenceClassifierConfig{.vocab_size = 65, .num_classes = 2});
///     auto logits = model->forward(tokens, tokens != kPad);  // (B, T) -> (B, 2)
class SequenceClassifierImpl : public torch::nn::Cloneable<SequenceClassifierImpl> {
 public:
  explicit SequenceClassifierImpl(const SequenceClassifierConfig& config);

  /// `tokens` (B, T) or (T), int64 in 0 .. V-1; `valid` of the same shape, bool, true = a token,
  /// false = padding, which changes nothing; all are tokens if not given. Returns the logits (B, C)
  /// or (C). A sequence without tokens counts as zeros.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& valid = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  SequenceClassifierConfig config;
  TokenEmbedding embedding{nullptr};
  TransformerEncoder encoder{nullptr};
  torch::nn::Linear head{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})
};
TORCH_MODULE(SequenceClassifier);

}  // namespace attend

namespace attend {

template <>
struct EnumNames<Pooling> {
  static constexpr std::array<std::string_view, 3> names{"mean", "max", "first"};
};

}  // namespace attend
