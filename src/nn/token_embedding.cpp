#include "attend/nn/token_embedding.h"

#include "attend/nn/sinusoidal_positions.h"
#include "attend/ops/positions.h"
#include "nn/checks.h"
#include "nn/new_layers.h"
#include "nn/submodules.h"
#include "resolved.h"

#include <c10/util/TypeCast.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cmath>

namespace attend {
namespace {

torch::nn::AnyModule make_position_embedding(const TokenEmbeddingOptions& options) {
  switch (options.positions()) {
    case PositionEmbedding::none:
      return {};
    case PositionEmbedding::learned:
      return torch::nn::AnyModule(new_embedding(options.max_seq_len(), options.embed_dim()));
    case PositionEmbedding::sinusoidal:
      return torch::nn::AnyModule(SinusoidalPositions(options.embed_dim()));
  }
  TORCH_CHECK_VALUE(false, "unknown position embedding ", static_cast<int>(options.positions()));
}

/// Throws c10::ValueError unless all numbers are in [0, size). Checks nothing in a trace. Checks
/// only tensors on the CPU, because reading the values would synchronize other devices.
void check_range(const char* name, const torch::Tensor& numbers, int64_t size) {
  if (!numbers.is_cpu() || numbers.numel() == 0 || torch::jit::tracer::isTracing()) return;
  const auto integers = contiguous_on_cpu(numbers.to(torch::kLong));
  const auto* begin = integers.const_data_ptr<int64_t>();
  const auto* end = begin + integers.numel();
  // A loop, because calls of operators take longer for the few tokens of a decoding step.
  const auto* wrong =
      std::find_if(begin, end, [&](int64_t number) { return number < 0 || number >= size; });
  TORCH_CHECK_VALUE(wrong == end, name, " (", *wrong, ") must be in [0, ", size, ")");
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

void check_token_types(const torch::Tensor& token_types, const torch::Tensor& tokens,
                       const TokenEmbeddingOptions& options) {
  if (!token_types.defined()) return;
  TORCH_CHECK_VALUE(
      options.type_vocab_size() > 0,
      "token_types are given, but type_vocab_size is 0: set it to the number of token types");
  TORCH_CHECK_TYPE(
      token_types.scalar_type() == torch::kLong || token_types.scalar_type() == torch::kInt,
      "token_types must be int64 or int32, found ", token_types.scalar_type());
  TORCH_CHECK_VALUE(token_types.sizes() == tokens.sizes(), "token_types ", token_types.sizes(),
                    " must have the shape of tokens ", tokens.sizes());
  check_range("token type", token_types, options.type_vocab_size());
}

/// Returns a factor in the dtype of the embeddings: Gemma in bfloat16 was trained with the rounded
/// one.
double rounded(double factor, torch::ScalarType dtype) {
  // On aarch64, static_cast to c10::Half warns, because it converts to the type of the processor
  // first.
  const auto number = static_cast<float>(factor);
  if (dtype == torch::kBFloat16) return c10::convert<float>(c10::convert<c10::BFloat16>(number));
  if (dtype == torch::kHalf) return c10::convert<float>(c10::convert<c10::Half>(number));
  return factor;
}

}  // namespace

TokenEmbeddingImpl::TokenEmbeddingImpl(const TokenEmbeddingOptions& options) : options(options) {
  reset();
}

void TokenEmbeddingImpl::reset() {
  check_positive("vocab_size", options.vocab_size());
  check_positive("embed_dim", options.embed_dim());
  check_positive("max_seq_len", options.max_seq_len());
  check_not_negative("type_vocab_size", options.type_vocab_size());
  check_probability("dropout", options.dropout());
  TORCH_CHECK_VALUE(std::isfinite(options.embedding_scale()), "embedding_scale (",
                    options.embedding_scale(), ") must be finite");

  use("token", &TokenEmbeddingImpl::token,
      new_embedding(options.vocab_size(), options.embed_dim()));
  use("position", &TokenEmbeddingImpl::position, make_position_embedding(options));
  token_type = nullptr;
  if (options.type_vocab_size() > 0) {
    use("token_type", &TokenEmbeddingImpl::token_type,
        new_embedding(options.type_vocab_size(), options.embed_dim()));
  }
  norm = {};
  if (options.embedding_norm()) {
    use("norm", &TokenEmbeddingImpl::norm,
        make_module("embedding_norm", options.embedding_norm(), options.embed_dim()));
  }
  use("dropout", &TokenEmbeddingImpl::dropout, torch::nn::Dropout(options.dropout()));
}

torch::Tensor TokenEmbeddingImpl::forward(const torch::Tensor& tokens,
                                          const torch::Tensor& positions,
                                          const torch::Tensor& token_types) {
  TORCH_CHECK_TYPE(tokens.scalar_type() == torch::kLong || tokens.scalar_type() == torch::kInt,
                   "tokens must be int64 or int32, found ", tokens.scalar_type());
  TORCH_CHECK_VALUE(
      (tokens.dim() == 1 || tokens.dim() == 2) && tokens.size(-1) <= options.max_seq_len(),
      "tokens must be (B, T) or (T) with T at most max_seq_len (", options.max_seq_len(),
      "), found ", tokens.sizes());
  check_range("token", tokens, options.vocab_size());
  check_positions(positions, tokens, options);
  check_token_types(token_types, tokens, options);
  auto x = token(tokens);  // (..., T, E)
  if (options.embedding_scale() != 1.0) x = x * rounded(options.embedding_scale(), x.scalar_type());
  if (!position.is_empty()) {
    const auto indices = positions.defined() ? positions : positions_like(tokens, -1);
    const auto vectors = position.forward(indices);  // (T, E) or (B, T, E)
    x = x + vectors.type_as(x);
  }
  if (token_type) {
    x = x + (token_types.defined() ? token_type(token_types)            // (..., T, E)
                                   : token_type->weight.select(0, 0));  // (E)
  }
  return dropout(norm.is_empty() ? x : norm.forward(x));
}

void TokenEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::TokenEmbedding(vocab_size=" << options.vocab_size()
         << ", embed_dim=" << options.embed_dim() << ", max_seq_len=" << options.max_seq_len()
         << ", positions=" << to_string(options.positions())
         << ", type_vocab_size=" << options.type_vocab_size()
         << ", embedding_scale=" << options.embedding_scale() << ", dropout=" << options.dropout()
         << ")";
}

}  // namespace attend
