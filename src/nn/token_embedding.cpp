#include "attend/nn/token_embedding.h"

#include "attend/nn/sinusoidal_positions.h"
#include "attend/ops/positions.h"
#include "nn/checks.h"

#include <torch/csrc/jit/frontend/tracer.h>

namespace attend {
namespace {

torch::nn::AnyModule make_position_embedding(const TokenEmbeddingOptions& options) {
  switch (options.positions()) {
    case PositionEmbedding::none:
      return {};
    case PositionEmbedding::learned:
      return torch::nn::AnyModule(torch::nn::Embedding(options.max_seq_len(), options.embed_dim()));
    case PositionEmbedding::sinusoidal:
      return torch::nn::AnyModule(SinusoidalPositions(options.embed_dim()));
  }
  TORCH_CHECK_VALUE(false, "unknown positions ", static_cast<int>(options.positions()));
}

/// Throws c10::ValueError unless all numbers are in [0, size). On the CPU only, since it would
/// synchronize other devices, and not in a trace.
void check_range(const char* name, const torch::Tensor& numbers, int64_t size) {
  if (!numbers.is_cpu() || numbers.numel() == 0 || torch::jit::tracer::isTracing()) return;
  const auto [min, max] = numbers.aminmax();
  for (const auto number : {min.item<int64_t>(), max.item<int64_t>()}) {
    TORCH_CHECK_VALUE(number >= 0 && number < size, name, " (", number, ") must be in [0, ", size,
                      ")");
  }
}

void check_positions(const torch::Tensor& positions, const torch::Tensor& tokens,
                     const TokenEmbeddingOptions& options) {
  if (!positions.defined()) return;
  TORCH_CHECK_TYPE(at::isIntegralType(positions.scalar_type(), /*includeBool=*/false),
                   "positions must be integers, found ", positions.scalar_type());
  const bool one_row = positions.dim() == 1 && positions.size(0) == tokens.size(-1);
  TORCH_CHECK_VALUE(one_row || positions.sizes() == tokens.sizes(), "positions ", positions.sizes(),
                    " must be (T) or have the shape of tokens ", tokens.sizes());
  if (options.positions() == PositionEmbedding::learned) {
    check_range("position", positions, options.max_seq_len());
  }
}

}  // namespace

TokenEmbeddingImpl::TokenEmbeddingImpl(const TokenEmbeddingOptions& options) : options(options) {
  reset();
}

void TokenEmbeddingImpl::reset() {
  check_positive("vocab_size", options.vocab_size());
  check_positive("embed_dim", options.embed_dim());
  check_positive("max_seq_len", options.max_seq_len());
  check_probability("dropout", options.dropout());

  token = register_module("token", torch::nn::Embedding(options.vocab_size(), options.embed_dim()));
  position = make_position_embedding(options);
  if (!position.is_empty()) register_module("position", position.ptr());
  dropout = register_module("dropout", torch::nn::Dropout(options.dropout()));
}

torch::Tensor TokenEmbeddingImpl::forward(const torch::Tensor& tokens,
                                          const torch::Tensor& positions) {
  TORCH_CHECK_TYPE(tokens.scalar_type() == torch::kLong || tokens.scalar_type() == torch::kInt,
                   "tokens must be int64 or int32, found ", tokens.scalar_type());
  TORCH_CHECK_VALUE(
      (tokens.dim() == 1 || tokens.dim() == 2) && tokens.size(-1) <= options.max_seq_len(),
      "tokens must be (B, T) or (T) with T at most max_seq_len (", options.max_seq_len(),
      "), found ", tokens.sizes());
  check_range("token", tokens, options.vocab_size());
  check_positions(positions, tokens, options);
  auto x = token(tokens);  // (..., T, E)
  if (!position.is_empty()) {
    const auto indices = positions.defined() ? positions : positions_like(tokens, -1);
    const auto vectors = position.forward(indices);  // (T, E) or (B, T, E)
    x = x + vectors.type_as(x);
  }
  return dropout(x);
}

void TokenEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TokenEmbedding(vocab_size=" << options.vocab_size()
         << ", embed_dim=" << options.embed_dim() << ", max_seq_len=" << options.max_seq_len()
         << ", positions=" << to_string(options.positions()) << ", dropout=" << options.dropout()
         << ")";
}

}  // namespace attend
