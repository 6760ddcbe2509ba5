#include "attend/models/sequence_classifier.h"

#include "nn/checks.h"

namespace attend {
namespace {

/// One vector (..., E) of those (..., T, E) of the tokens that `valid` (..., T, 1) marks.
torch::Tensor pool(const torch::Tensor& x, const torch::Tensor& valid, Pooling pooling) {
  const auto count = valid.sum(-2);  // (..., 1)
  switch (pooling) {
    case Pooling::mean:
      return (x * valid).sum(-2) / count.clamp_min(1);  // (..., E)
    case Pooling::max: {
      // A row of minus infinity below, so that a sequence without tokens has a largest one, too.
      const auto lowest = torch::full_like(x.narrow(-2, 0, 0).sum(-2, /*keepdim=*/true), -INFINITY);
      const auto kept = torch::cat({x.masked_fill(valid.logical_not(), -INFINITY), lowest}, -2);
      return kept.amax(-2).masked_fill(count.eq(0), 0.0);  // (..., E)
    }
    case Pooling::first: {
      // The first valid one, wherever padding stands.
      const auto is_first = valid.cumsum(-2).eq(1).logical_and(valid);
      return (x * is_first).sum(-2);  // (..., E)
    }
  }
  TORCH_CHECK_VALUE(false, "unknown pooling ", static_cast<int>(pooling));
}

}  // namespace

SequenceClassifierImpl::SequenceClassifierImpl(const SequenceClassifierConfig& config)
    : config(config) {
  reset();
}

void SequenceClassifierImpl::reset() {
  check_positive("classes", config.num_classes);
  const auto& stack = config.stack;
  embedding = register_module(
      "embedding", TokenEmbedding(embedding_options(stack, config.vocab_size, config.max_seq_len)));
  encoder =
      register_module("encoder", TransformerEncoder(encoder_options(stack, /*causal=*/false)));
  head = register_module("head", torch::nn::Linear(stack.embed_dim, config.num_classes));
  initialize(*this, stack);
}

torch::Tensor SequenceClassifierImpl::forward(const torch::Tensor& tokens,
                                              const torch::Tensor& valid) {
  TORCH_CHECK_VALUE(!valid.defined() || valid.sizes() == tokens.sizes(), "valid ", valid.sizes(),
                    " must have the shape of the tokens ", tokens.sizes());
  TORCH_CHECK_TYPE(!valid.defined() || valid.scalar_type() == torch::kBool,
                   "valid must be bool (true = a token), found ", valid.scalar_type());
  const auto x = encoder->forward(embedding(tokens), {.key_mask = valid});  // (..., T, E)
  const auto all = valid.defined() ? valid : torch::ones_like(tokens, torch::kBool);
  return head(pool(x, all.unsqueeze(-1), config.pooling));  // (..., C)
}

void SequenceClassifierImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SequenceClassifier(vocab_size=" << config.vocab_size
         << ", classes=" << config.num_classes << ", context=" << config.max_seq_len
         << ", pooling=" << to_string(config.pooling) << ")";
}

}  // namespace attend
