#pragma once

#include <torch/types.h>

#include <cmath>

namespace attend {

/// Throws c10::ValueError unless `x` is (..., T, E) with E = `embed_dim`.
inline void check_width(const char* module, const torch::Tensor& x, int64_t embed_dim) {
  TORCH_CHECK_VALUE(x.dim() >= 2 && x.size(-1) == embed_dim, module,
                    " expects (..., T, E) with E = ", embed_dim, ", found ", x.sizes());
}

/// Throws c10::ValueError unless `x` is (B, T, E) or (T, E) with E = `embed_dim`.
inline void check_sequence(const char* module, const torch::Tensor& x, int64_t embed_dim) {
  TORCH_CHECK_VALUE((x.dim() == 2 || x.dim() == 3) && x.size(-1) == embed_dim, module,
                    " expects (B, T, E) or (T, E) with E = ", embed_dim, ", found ", x.sizes());
}

/// Throws c10::ValueError unless `x` is (..., width).
inline void check_last_dimension(const char* module, const torch::Tensor& x, int64_t width) {
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) == width, module,
                    " expects (..., width) with width ", width, ", found ", x.sizes());
}

/// Throws c10::ValueError unless `value` is positive.
inline void check_positive(const char* option, int64_t value) {
  TORCH_CHECK_VALUE(value > 0, option, " (", value, ") must be positive");
}

/// Throws c10::ValueError unless `embed_dim`, `num_heads` and `num_kv_heads` are positive and
/// `num_heads` is divisible by `num_kv_heads`. If `has_head_dim` is false, `embed_dim` must also be
/// divisible by `num_heads`.
inline void check_heads(int64_t embed_dim, int64_t num_heads, int64_t num_kv_heads,
                        bool has_head_dim) {
  check_positive("embed_dim", embed_dim);
  check_positive("num_heads", num_heads);
  check_positive("num_kv_heads", num_kv_heads);
  TORCH_CHECK_VALUE(has_head_dim || embed_dim % num_heads == 0, "embed_dim (", embed_dim,
                    ") must be divisible by num_heads (", num_heads, ")");
  TORCH_CHECK_VALUE(num_heads % num_kv_heads == 0, "num_heads (", num_heads,
                    ") must be divisible by num_kv_heads (", num_kv_heads, ")");
}

/// Throws c10::ValueError if `value` is negative or NaN.
template <typename Number>
void check_not_negative(const char* option, Number value) {
  TORCH_CHECK_VALUE(value >= 0, option, " (", value, ") must not be negative");
}

/// Throws c10::ValueError if `value` is infinite or NaN.
inline void check_finite(const char* option, double value) {
  TORCH_CHECK_VALUE(std::isfinite(value), option, " (", value, ") must be finite");
}

/// Throws c10::ValueError unless 0 <= `value` < 1.
inline void check_probability(const char* option, double value) {
  TORCH_CHECK_VALUE(value >= 0.0 && value < 1.0, option, " (", value, ") must be in [0, 1)");
}

}  // namespace attend
