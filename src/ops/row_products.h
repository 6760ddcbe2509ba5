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

/// Elements that have a scale and an offset in Int4Rows.
constexpr int64_t kGroup = 32;
/// Elements of the shortest chunk.
constexpr int64_t kBlock = 64;
/// Lanes of a chunk.
constexpr int64_t kLanes = 8;

/// K, padded with zeros to whole blocks.
constexpr int64_t padded_columns(int64_t columns) {
  return (columns + kBlock - 1) / kBlock * kBlock;
}

/// Returns the size of the chunk of a quantized row that begins at `column`: 256 elements, or 128
/// or 64 at the end of the row.
///
/// A chunk is divided among lanes of `size / kLanes` elements, each in one group, so that a vector
/// of 8 sums belongs to 8 lanes, and a chunk has as many scales. The elements are stored by twos,
/// first two of each lane, then the next two of each lane.
constexpr int64_t chunk_size(int64_t column, int64_t columns) {
  const auto left = padded_columns(columns) - column;
  return left >= 256 ? 256 : left >= 128 ? 128 : kBlock;
}

/// Number of lanes of all chunks of a row.
constexpr int64_t num_lanes(int64_t columns) {
  const auto padded = padded_columns(columns);
  return kLanes * (padded / 256 + padded % 256 / 128 + padded % 128 / kBlock);
}

/// Where an element of a quantized row is.
struct Place {
  int64_t index = 0;  // in the row
  int64_t lane = 0;   // of those of all chunks
};

constexpr Place place_of(int64_t column, int64_t columns) {
  int64_t begin = 0, lane = 0, size = chunk_size(0, columns);
  for (; column >= begin + size; size = chunk_size(begin, columns)) begin += size, lane += kLanes;
  const auto i = column - begin;
  const auto of_lane = size / kLanes;
  return {begin + i % of_lane / 2 * 2 * kLanes + i / of_lane * 2 + i % 2, lane + i / of_lane};
}

/// Rows of `x`, rounded to multiples of max |x| / 32767 of the row, in the order of `place_of`. If
/// a row contains NaN or infinity, its scale is NaN.
struct IntegerInput {
  std::vector<int16_t> elements;  // (rows, padded_columns)
  std::vector<float> lane_sums;   // (rows, num_lanes), of `elements`
  std::array<float, kMaxProductRows> scales{};
};

/// A weight in 8 bits per element, in the order of `place_of`: element = scale * integer.
struct Int8Rows {
  const int8_t* elements = nullptr;  // (N, padded_columns)
  const float* scales = nullptr;     // (N)
};

/// A weight in 4 bits per element, with a scale and an offset for each group of 32 elements:
/// element = scale_unit * scale * integer + offset_unit * offset, with 0 <= integer <= 15,
/// 0 <= scale <= 255 and -127 <= offset <= 127.
///
/// A row has `int4_row_bytes(K)` bytes: blocks of 64 elements in the order of `place_of`, the scale
/// of each lane, and the offset of each lane. Byte j of a block contains element j in its low 4
/// bits, and element 32 + j in its high ones.
struct Int4Rows {
  const uint8_t* data = nullptr;
  const float* units = nullptr;  // (N, 2): scale_unit and offset_unit
};

constexpr int64_t int4_row_bytes(int64_t columns) {
  return padded_columns(columns) / 2 + 2 * num_lanes(columns);
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
