#pragma once

#include "attend/api.h"

#include <array>
#include <cstdint>
#include <vector>

namespace attend {

/// Largest number of rows of `x` in a product of these kernels. Products of more rows are limited
/// by arithmetic instead of by reading the weight.
constexpr int64_t kMaxProductRows = 8;

/// The product y = x W^T + bias, for a weight W (N, K).
struct RowProduct {
  int64_t rows = 0;             // of x, at most kMaxProductRows
  int64_t columns = 0;          // K
  const float* bias = nullptr;  // (N), or null
  float* y = nullptr;           // (rows, N)
  int64_t outputs = 0;          // N
};

/// Rows of a weight.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// A weight (N, K) in float32. Row n begins at `data + n * stride`.
struct FloatRows {
  const float* data = nullptr;
  int64_t stride = 0;
};

/// Rows of `x`, rounded to multiples of max |x| / 32767 of the row. If a row contains NaN or
/// infinity, its scale is NaN.
struct IntegerInput {
  std::vector<int16_t> elements;  // (rows, padded_columns)
  std::vector<float> group_sums;  // (rows, padded_groups), of `elements`
  std::array<float, kMaxProductRows> scales{};
};

/// A weight in 8 bits per element: element = scale * integer.
struct Int8Rows {
  const int8_t* elements = nullptr;  // (N, padded_columns)
  const float* scales = nullptr;     // (N)
};

/// A weight in 4 bits per element, with a scale and an offset for each group of 32 elements:
/// element = scale_unit * scale * integer + offset_unit * offset, with 0 <= integer <= 15,
/// 0 <= scale <= 255 and -127 <= offset <= 127.
///
/// A row has `int4_row_bytes(K)` bytes: blocks of 64 elements, the scales and the offsets. Element
/// 16 i + j of a block is in the bits 4 i to 4 i + 3 of its number j of 16 bits (little-endian).
struct Int4Rows {
  const uint8_t* data = nullptr;
  const float* units = nullptr;  // (N, 2): scale_unit and offset_unit
};

constexpr int64_t kGroup = 32;  // elements
constexpr int64_t kBlock = 64;  // elements

constexpr int64_t round_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

/// K, padded with zeros to whole blocks.
constexpr int64_t padded_columns(int64_t columns) {
  return round_up(columns, kBlock);
}

/// Number of groups of a row. Vectors have at most 8 scales.
constexpr int64_t padded_groups(int64_t columns) {
  return round_up(padded_columns(columns) / kGroup, 8);
}

constexpr int64_t int4_row_bytes(int64_t columns) {
  return padded_columns(columns) / 2 + 2 * padded_groups(columns);
}

/// Where an integer of a row of Int4Rows is.
struct Int4Place {
  int64_t byte = 0;
  int shift = 0;  // bits
};

constexpr Int4Place int4_place(int64_t column) {
  const auto in_block = column % kBlock;
  const auto i = in_block / 16;
  const auto j = in_block % 16;
  return {column / kBlock * (kBlock / 2) + 2 * j + i / 2, static_cast<int>(4 * (i % 2))};
}

/// Rounds the rows of `x` (rows, columns).
ATTEND_API IntegerInput to_integers(const float* x, int64_t rows, int64_t columns);

/// Rounds a row of a weight to multiples of the returned scale. Writes padded_columns(columns)
/// integers. The scale of a row with NaN or infinity is NaN.
ATTEND_API float to_int8(const float* row, int64_t columns, int8_t* elements);

/// Rounds a row of a weight as described at `Int4Rows`. Writes int4_row_bytes(columns) bytes, and
/// the two units, which are NaN for a row with NaN or infinity.
ATTEND_API void to_int4(const float* row, int64_t columns, uint8_t* data, float* units);

/// Compute the outputs of `product` for these rows of the weight. `x` is (rows, columns).
ATTEND_API void multiply(const RowProduct& product, const float* x, const FloatRows& weight,
                         RowRange range);
ATTEND_API void multiply(const RowProduct& product, const IntegerInput& x, const Int8Rows& weight,
                         RowRange range);
ATTEND_API void multiply(const RowProduct& product, const IntegerInput& x, const Int4Rows& weight,
                         RowRange range);

}  // namespace attend
