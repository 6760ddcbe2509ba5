#include "attend/models/sequence_classifier.h"

#include "attend/nn/linear.h"
#include "attend/ops/pooling.h"
#include "nn/checks.h"
#include "nn/new_layers.h"

#include <torch/nn/functional/normalization.h>

namespace attend {
namespace {

namespace F = torch::nn::functional;

/// Pools x (..., T, E) to (..., E) over the tokens where key_mask (..., T) is true.
torch::Tensor pool(const torch::Tensor& x, const torch::Tensor& key_mask, Pooling pooling) {
  const auto is_token = key_mask.unsqueeze(-1);  // (..., T, 1)
  switch (pooling) {
    case Pooling::mean:
      return mean_pooling(x, key_mask);  // (..., E)
    case Pooling::max: {
      // Adds a row of -inf, because amax throws for sequences of length 0.
      const auto padding =
          torch::full_like(x.narrow(-2, 0, 0).sum(-2, /*keepdim=*/true), -INFINITY);
      const auto candidates =
          torch::cat({x.masked_fill(is_token.logical_not(), -INFINITY), padding}, -2);
      return candidates.amax(-2).masked_fill(is_token.sum(-2).eq(0), 0.0);  // (..., E)
    }
    case Pooling::first: {
      // Selects the first position where key_mask is true, because padding may be on the left.
      const auto is_first = is_token.cumsum(-2).eq(1).logical_and(is_token);
      return x.masked_fill(is_first.logical_not(), 0.0).sum(-2);  // (..., E)
    }
    case Pooling::none:
      return x;  // (..., T, E)
  }
  C10_THROW_ERROR(ValueError, c10::str("unknown pooling ", static_cast<int>(pooling)));
}

/// The activation of the head of a masked language model. A gated one has two inputs.
Activation lm_activation(const StackConfig& stack) {
  const auto* named = std::get_if<Activation>(&stack.activation);
  return named == nullptr || is_gated(*named) ? Activation::gelu : *named;
}

}  // namespace

SequenceClassifierImpl::SequenceClassifierImpl(const SequenceClassifierConfig& config)
    : config(config) {
  reset();
}

void SequenceClassifierImpl::reset() {
  check_not_negative("num_classes", config.num_classes);
  const auto& stack = config.stack;
  use("embedding", &SequenceClassifierImpl::embedding,
      TokenEmbedding(embedding_options(stack, config.vocab_size, config.max_seq_len)
                         .type_vocab_size(config.type_vocab_size)));
  use("encoder", &SequenceClassifierImpl::encoder,
      TransformerEncoder(encoder_options(stack, /*causal=*/false)));
  pooler = nullptr;
  if (config.pooler) {
    use("pooler", &SequenceClassifierImpl::pooler, new_linear({stack.embed_dim, stack.embed_dim}));
  }
  head = nullptr;
  if (config.num_classes > 0) {
    use("head", &SequenceClassifierImpl::head, new_linear({stack.embed_dim, config.num_classes}));
  }
  lm_dense = nullptr;
  lm_norm = nullptr;
  lm_bias = torch::Tensor();
  if (config.masked_lm) {
    use("lm_dense", &SequenceClassifierImpl::lm_dense,
        new_linear({stack.embed_dim, stack.embed_dim}));
    use("lm_norm", &SequenceClassifierImpl::lm_norm,
        LayerNorm(LayerNormOptions(stack.embed_dim).eps(stack.norm_eps)));
    lm_bias = register_parameter("lm_bias", torch::zeros({config.vocab_size}));
  }
  initialize(*this, stack);
}

torch::Tensor SequenceClassifierImpl::encode_each(const torch::Tensor& tokens,
                                                  const torch::Tensor& key_mask,
                                                  const torch::Tensor& token_types) {
  TORCH_CHECK_VALUE(!key_mask.defined() || key_mask.sizes() == tokens.sizes(),
                    "key_mask must have the shape of the tokens ", tokens.sizes(), ", found ",
                    key_mask.sizes());
  TORCH_CHECK_TYPE(!key_mask.defined() || key_mask.scalar_type() == torch::kBool,
                   "key_mask must be bool (true = token, false = padding), found ",
                   key_mask.scalar_type());
  const auto embedded = embedding->forward(tokens, /*positions=*/{}, token_types);
  return encoder->forward(embedded, {.key_mask = key_mask});  // (..., T, E)
}

torch::Tensor SequenceClassifierImpl::encode(const torch::Tensor& tokens,
                                             const torch::Tensor& key_mask,
                                             const torch::Tensor& token_types) {
  const auto x = encode_each(tokens, key_mask, token_types);  // (..., T, E)
  const auto all = key_mask.defined() ? key_mask : torch::ones_like(tokens, torch::kBool);
  auto pooled = pool(x, all, config.pooling);  // (..., E)
  if (pooler) pooled = torch::tanh(apply_linear(pooled, pooler));
  return config.normalize ? F::normalize(pooled, F::NormalizeFuncOptions().dim(-1)) : pooled;
}

torch::Tensor SequenceClassifierImpl::forward(const torch::Tensor& tokens,
                                              const torch::Tensor& key_mask,
                                              const torch::Tensor& token_types) {
  if (config.masked_lm) {
    const auto x = apply_linear(encode_each(tokens, key_mask, token_types), lm_dense,
                                lm_activation(config.stack));            // (..., T, E)
    return apply_linear(lm_norm(x), embedding->token->weight, lm_bias);  // (..., T, V)
  }
  const auto pooled = encode(tokens, key_mask, token_types);
  return head ? apply_linear(pooled, head) : pooled;  // (..., C)
}

void SequenceClassifierImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SequenceClassifier(vocab_size=" << config.vocab_size
         << ", num_classes=" << config.num_classes << ", max_seq_len=" << config.max_seq_len
         << ", type_vocab_size=" << config.type_vocab_size
         << ", pooling=" << to_string(config.pooling) << std::boolalpha
         << ", pooler=" << config.pooler << ", normalize=" << config.normalize
         << ", masked_lm=" << config.masked_lm << ")";
}

}  // namespace attend
