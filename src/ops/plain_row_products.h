#pragma once

#include "ops/row_products.h"

namespace attend {

/// These functions return element (n, k) of a matrix with `columns` columns.
inline double element(const float* x, int64_t columns, int64_t n, int64_t k) {
  return x[n * columns + k];
}

inline double element(const FloatRows& weight, int64_t /*columns*/, int64_t n, int64_t k) {
  return weight.data[n * weight.stride + k];
}

inline double element(const IntegerInput& x, int64_t columns, int64_t n, int64_t k) {
  return static_cast<double>(x.scales[n]) *
         x.elements[n * padded_columns(columns) + place_of(k, columns).index];
}

inline double element(const Int8Rows& weight, int64_t columns, int64_t n, int64_t k) {
  return static_cast<double>(weight.scales[n]) *
         weight.elements[n * padded_columns(columns) + place_of(k, columns).index];
}

inline double element(const Int4Rows& weight, int64_t columns, int64_t n, int64_t k) {
  const auto* row = weight.data + n * int4_row_bytes(columns);
  const auto* scales = row + padded_columns(columns) / 2;
  const auto* offsets = reinterpret_cast<const int8_t*>(scales + num_lanes(columns));
  const auto [index, lane] = place_of(k, columns);
  const auto in_block = index % kBlock;
  const auto byte = row[index / kBlock * (kBlock / 2) + in_block % 32];
  const int number = in_block < 32 ? byte & 15 : byte >> 4;
  const auto* units = weight.units + 2 * n;
  return static_cast<double>(units[0]) * scales[lane] * number +
         static_cast<double>(units[1]) * offsets[lane];
}

/// Computes what `multiply` computes, without vector instructions: the specification of its
/// kernels.
template <typename Input, typename Weight>
void plain_multiply(const RowProduct& product, const Input& x, const Weight& weight,
                    RowRange range) {
  for (int64_t r = 0; r < product.rows; ++r) {
    for (int64_t n = range.begin; n < range.end; ++n) {
      double sum = product.bias == nullptr ? 0 : product.bias[n];
      for (int64_t k = 0; k < product.columns; ++k) {
        sum += element(x, product.columns, r, k) * element(weight, product.columns, n, k);
      }
      product.y[r * product.outputs + n] = static_cast<float>(sum);
    }
  }
}

}  // namespace attend
