#include "attend/nn/token_embedding.h"

#include "attend/nn/sinusoidal_positions.h"
#include "attend/ops/positions.h"
#include "nn/checks.h"

namespace attend {
namespace {

torch::nn::AnyModule make_positions(const TokenEmbeddingOptions& options) {
  switch (options.positions()) {
    case Positions::none:
      return {};
    case Positions::learned:
      return torch::nn::AnyModule(torch::nn::Embedding(options.max_length(), options.embed_dim()));
    case Positions::sinusoidal:
      return torch::nn::AnyModule(SinusoidalPositions(options.embed_dim()));
  }
  TORCH_CHECK_VALUE(false, "unknown positions ", static_cast<int>(options.positions()));
}

}  // namespace

TokenEmbeddingImpl::TokenEmbeddingImpl(const TokenEmbeddingOptions& options) : options(options) {
  reset();
}

void TokenEmbeddingImpl::reset() {
  check_positive("vocab_size", options.vocab_size());
  check_positive("embed_dim", options.embed_dim());
  check_positive("max_length", options.max_length());
  check_probability("dropout", options.dropout());

  token = register_module("token", torch::nn::Embedding(options.vocab_size(), options.embed_dim()));
  position = make_positions(options);
  if (!position.is_empty()) register_module("position", position.ptr());
  dropout = register_module("dropout", torch::nn::Dropout(options.dropout()));
}

torch::Tensor TokenEmbeddingImpl::forward(const torch::Tensor& tokens,
                                          const torch::Tensor& positions) {
  TORCH_CHECK_TYPE(tokens.scalar_type() == torch::kLong || tokens.scalar_type() == torch::kInt,
                   "tokens must be int64 or int32, found ", tokens.scalar_type());
  TORCH_CHECK_VALUE(tokens.dim() >= 1 && tokens.size(-1) <= options.max_length(),
                    "tokens must be (B, T) or (T) with T at most max_length (",
                    options.max_length(), "), found ", tokens.sizes());
  auto x = token(tokens);  // (..., T, E)
  if (!position.is_empty()) {
    const auto where = positions.defined() ? positions : index_along(tokens, -1);
    const auto vectors = position.forward(where);  // (T, E) or (B, T, E)
    x = x + vectors.type_as(x);
  }
  return dropout(x);
}

void TokenEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TokenEmbedding(vocab_size=" << options.vocab_size()
         << ", embed_dim=" << options.embed_dim() << ", max_length=" << options.max_length()
         << ", positions=" << to_string(options.positions()) << ", dropout=" << options.dropout()
         << ")";
}

}  // namespace attend
