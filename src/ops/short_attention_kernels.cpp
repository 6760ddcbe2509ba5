#include "ops/short_attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Highway compiles this file once for each instruction set, and chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/short_attention_kernels.cpp"
// Arrays of vectors need vectors of a known size.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
// clang-format off
#include <hwy/foreach_target.h>  // must precede the others
#include "ops/float_vectors-inl.h"
// clang-format on

#ifndef ATTEND_SHORT_ATTENTION_PADDED
#define ATTEND_SHORT_ATTENTION_PADDED
namespace attend {
namespace {

/// Rows and columns of matrices in scratch memory are padded to a multiple of this number.
constexpr int64_t kPadding = 16;

int64_t padded(int64_t size) {
  return (size + kPadding - 1) / kPadding * kPadding;
}

}  // namespace
}  // namespace attend
#endif

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows of a product that are computed at once. With two vectors per row, the sums fit into the
/// registers, and hide the latency of an addition.
constexpr int64_t kRows = HWY_MAX_BYTES >= 64 ? 8 : 4;

/// A matrix whose element (i, k) is data[i * row + k * column].
struct Matrix {
  const float* data = nullptr;
  int64_t row = 0;
  int64_t column = 1;
};

/// A matrix with contiguous rows.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;

  float* operator[](int64_t row) const { return data + row * stride; }
};

template <int kVectors>
HWY_INLINE void multiply_tile(const Matrix& a, const Rows& b, int64_t begin, int64_t end,
                              const Rows& c) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vector sums[kRows][kVectors];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d);
  }
  for (int64_t k = begin; k < end; ++k) {
    Vector elements[kVectors];
    for (int v = 0; v < kVectors; ++v) elements[v] = hn::LoadU(d, b[k] + v * lanes);
    for (int64_t r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a.data[r * a.row + k * a.column]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(factor, elements[v], sums[r][v]);
      }
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c[r] + v * lanes);
  }
}

/// Writes the first `columns` columns, rounded up to a vector, of kRows rows of a b to `c`: the
/// sums over k from `begin` to `end`.
HWY_INLINE void multiply(const Matrix& a, const Rows& b, int64_t begin, int64_t end,
                         int64_t columns, const Rows& c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  int64_t n = 0;
  for (; n + lanes < columns; n += 2 * lanes) {
    multiply_tile<2>(a, {b.data + n, b.stride}, begin, end, {c.data + n, c.stride});
  }
  if (n < columns) {
    multiply_tile<1>(a, {b.data + n, b.stride}, begin, end, {c.data + n, c.stride});
  }
}

template <typename From, typename To>
HWY_INLINE void copy_row(const From* HWY_RESTRICT from, int64_t columns, To* HWY_RESTRICT to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(Floats()));
  for (int64_t i = 0; i < columns; i += lanes) store(load(from + i), to + i);
}

template <typename T>
HWY_INLINE void copy(const HeadRows<const T>& from, int64_t count, int64_t columns,
                     const Rows& to) {
  for (int64_t t = 0; t < count; ++t) copy_row(from.data + t * from.stride, columns, to[t]);
}

template <typename T>
HWY_INLINE void copy(const Rows& from, int64_t count, int64_t columns, const HeadRows<T>& to) {
  for (int64_t t = 0; t < count; ++t) copy_row(from[t], columns, to.data + t * to.stride);
}

/// Transposes `count` rows.
HWY_INLINE void transpose(const Rows& from, int64_t count, int64_t columns, const Rows& to) {
  for (int64_t i = 0; i < columns; ++i) {
    const float* HWY_RESTRICT column = from.data + i;
    float* HWY_RESTRICT row = to[i];
    for (int64_t t = 0; t < count; ++t) row[t] = column[t * from.stride];
  }
}

/// The number of keys of query t.
HWY_INLINE int64_t keys_of(const HeadShape& shape, int64_t t) {
  return shape.causal ? std::min(t + 1, shape.keys) : shape.keys;
}

/// The first `count` elements of a vector.
HWY_INLINE hn::Mask<Floats> first(int64_t count) {
  return hn::FirstN(Floats(), static_cast<std::size_t>(std::max<int64_t>(count, 0)));
}

/// Replaces scores by the exponentials of scale * score - largest, and elements from `keys` to
/// `end` by zeros. Returns the sum of the exponentials.
HWY_INLINE float exponentials(float* HWY_RESTRICT row, int64_t keys, int64_t end, Vector scale,
                              Vector largest) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < end; i += lanes) {
    const auto scaled = hn::MulSub(hn::LoadU(d, row + i), scale, largest);
    const auto power = hn::IfThenElseZero(first(keys - i), exp_of(scaled));
    sum = hn::Add(sum, power);
    hn::StoreU(power, d, row + i);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE float largest_of(const float* HWY_RESTRICT row, int64_t keys, Vector scale) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = lowest;
  for (int64_t i = 0; i < keys; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, row + i), scale);
    largest = hn::Max(largest, hn::IfThenElse(first(keys - i), scaled, lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

template <typename T>
HWY_INLINE void forward(const HeadShape& shape, const Head<T>& head, float* scratch) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto dim = shape.head_dim;
  const auto keys = padded(shape.keys);
  const Rows query{scratch, dim};
  const Rows value{query[padded(shape.queries)], dim};
  const Rows key{value[keys], dim};
  const Rows transposed_key{key[keys], keys};
  const Rows weights{transposed_key[dim], keys};
  const Rows output{weights[kRows], dim};
  copy(head.query, shape.queries, dim, query);
  copy(head.key, shape.keys, dim, key);
  copy(head.value, shape.keys, dim, value);
  transpose(key, shape.keys, dim, transposed_key);
  const auto scale = hn::Set(d, static_cast<float>(shape.scale));
  for (int64_t begin = 0; begin < shape.queries; begin += kRows) {
    const auto count = std::min(kRows, shape.queries - begin);
    const auto end = keys_of(shape, begin + kRows - 1);
    multiply({query[begin], dim}, transposed_key, 0, dim, end, weights);
    float inverses[kRows];
    for (int64_t r = 0; r < count; ++r) {
      const auto of_row = keys_of(shape, begin + r);
      const float largest = largest_of(weights[r], of_row, scale);
      const float sum = exponentials(weights[r], of_row, end, scale, hn::Set(d, largest));
      inverses[r] = 1 / sum;
      head.logsumexp[begin + r] = largest + std::log(sum);
    }
    multiply({weights.data, keys}, value, 0, end, dim, output);
    for (int64_t r = 0; r < count; ++r) {
      const auto factor = hn::Set(d, inverses[r]);
      T* row = head.output.data + (begin + r) * head.output.stride;
      for (int64_t i = 0; i < dim; i += lanes) {
        store(hn::Mul(load(output[r] + i), factor), row + i);
      }
    }
  }
}

/// Replaces the gradient of the weights of a row by the gradient of the scores, before the scale.
HWY_INLINE void softmax_backward(const float* HWY_RESTRICT weights, float* HWY_RESTRICT gradient,
                                 int64_t keys, int64_t end, Vector scale) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < keys; i += lanes) {
    const auto product = hn::Mul(hn::LoadU(d, weights + i), hn::LoadU(d, gradient + i));
    sum = hn::Add(sum, hn::IfThenElseZero(first(keys - i), product));
  }
  const auto mean = hn::SumOfLanes(d, sum);
  for (int64_t i = 0; i < end; i += lanes) {
    const auto difference = hn::Mul(hn::Sub(hn::LoadU(d, gradient + i), mean), scale);
    const auto result = hn::Mul(hn::LoadU(d, weights + i), difference);
    hn::StoreU(hn::IfThenElseZero(first(keys - i), result), d, gradient + i);
  }
}

template <typename T>
HWY_INLINE void backward(const HeadShape& shape, const HeadGradient<T>& head, float* scratch) {
  const Floats d;
  const auto dim = shape.head_dim;
  const auto queries = padded(shape.queries);
  const auto keys = padded(shape.keys);
  const Rows query{scratch, dim};
  const Rows output_gradient{query[queries], dim};
  const Rows key{output_gradient[queries], dim};
  const Rows value{key[keys], dim};
  const Rows transposed_key{value[keys], keys};
  const Rows transposed_value{transposed_key[dim], keys};
  const Rows weights{transposed_value[dim], keys};
  const Rows gradient{weights[queries], keys};  // of the weights, then of the scores
  const Rows result{gradient[queries], dim};
  copy(head.query, shape.queries, dim, query);
  copy(head.output_gradient, shape.queries, dim, output_gradient);
  copy(head.key, shape.keys, dim, key);
  copy(head.value, shape.keys, dim, value);
  transpose(key, shape.keys, dim, transposed_key);
  transpose(value, shape.keys, dim, transposed_value);
  const auto scale = hn::Set(d, static_cast<float>(shape.scale));
  for (int64_t begin = 0; begin < shape.queries; begin += kRows) {
    const auto count = std::min(kRows, shape.queries - begin);
    const auto end = keys_of(shape, begin + kRows - 1);
    const Rows of_block{weights[begin], keys};
    const Rows gradient_of_block{gradient[begin], keys};
    multiply({query[begin], dim}, transposed_key, 0, dim, end, of_block);
    multiply({output_gradient[begin], dim}, transposed_value, 0, dim, end, gradient_of_block);
    for (int64_t r = 0; r < count; ++r) {
      const auto of_row = keys_of(shape, begin + r);
      exponentials(of_block[r], of_row, end, scale, hn::Set(d, head.logsumexp[begin + r]));
      softmax_backward(of_block[r], gradient_of_block[r], of_row, end, scale);
    }
    multiply({gradient_of_block.data, keys}, key, 0, end, dim, result);
    const auto& to = head.query_gradient;
    copy(result, count, dim, HeadRows<T>{to.data + begin * to.stride, to.stride});
  }
  for (int64_t begin = 0; begin < shape.keys; begin += kRows) {
    const auto count = std::min(kRows, shape.keys - begin);
    const auto first_query = shape.causal ? std::min(begin, shape.queries) : 0;
    const auto write = [&](const Rows& factor, const Rows& rows, const HeadRows<T>& to) HWY_ATTR {
      multiply({factor.data + begin, /*row=*/1, /*column=*/keys}, rows, first_query, shape.queries,
               dim, result);
      copy(result, count, dim, HeadRows<T>{to.data + begin * to.stride, to.stride});
    };
    write(gradient, query, head.key_gradient);
    write(weights, output_gradient, head.value_gradient);
  }
}

void ForwardFloat(const HeadShape& shape, const Head<float>& head, float* scratch) {
  forward(shape, head, scratch);
}

void ForwardBFloat16(const HeadShape& shape, const Head<BFloat16Bits>& head, float* scratch) {
  forward(shape, head, scratch);
}

void BackwardFloat(const HeadShape& shape, const HeadGradient<float>& head, float* scratch) {
  backward(shape, head, scratch);
}

void BackwardBFloat16(const HeadShape& shape, const HeadGradient<BFloat16Bits>& head,
                      float* scratch) {
  backward(shape, head, scratch);
}

}  // namespace
}  // namespace attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend {
namespace {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardBFloat16);
HWY_EXPORT(BackwardFloat);
HWY_EXPORT(BackwardBFloat16);

}  // namespace

int64_t forward_scratch_size(const HeadShape& shape) {
  const auto queries = padded(shape.queries);
  const auto keys = padded(shape.keys);
  return (queries + 3 * keys + kPadding) * shape.head_dim + kPadding * keys;
}

int64_t backward_scratch_size(const HeadShape& shape) {
  const auto queries = padded(shape.queries);
  const auto keys = padded(shape.keys);
  return (2 * queries + 4 * keys + kPadding) * shape.head_dim + 2 * queries * keys;
}

void attend_head(const HeadShape& shape, const Head<float>& head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardFloat)(shape, head, scratch);
}

void attend_head(const HeadShape& shape, const Head<BFloat16Bits>& head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardBFloat16)(shape, head, scratch);
}

void attend_head_backward(const HeadShape& shape, const HeadGradient<float>& head, float* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardFloat)(shape, head, scratch);
}

void attend_head_backward(const HeadShape& shape, const HeadGradient<BFloat16Bits>& head,
                          float* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardBFloat16)(shape, head, scratch);
}

}  // namespace attend
#endif  // HWY_ONCE
