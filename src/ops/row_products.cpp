#include "ops/row_products.h"

#include "ops/cpu_features.h"

#include <algorithm>
#include <cmath>
#include <utility>

// Highway compiles this file once for each instruction set, and chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/row_products.cpp"
// Arrays of vectors need vectors of a known size.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

// The version for AVX-512 multiplies integers with VNNI. Without VNNI, it calls the version for
// AVX2.
#undef ATTEND_USES_VNNI
#if HWY_TARGET == HWY_AVX3 && (HWY_TARGETS & HWY_AVX2)
#define ATTEND_USES_VNNI 1
#else
#define ATTEND_USES_VNNI 0
#endif

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Distance at which quantized weights are prefetched. Without it, they are read at about 0.7 of
/// the speed of the memory.
constexpr int64_t kPrefetchBytes = 3072;

using Floats = hn::ScalableTag<float>;
using Shorts = hn::ScalableTag<int16_t>;
using Ints = hn::RepartitionToWide<Shorts>;
using Sums = hn::Rebind<float, Ints>;

/// Lambdas with this attribute are inlined, so that the variables that they change stay in
/// registers.
#define ATTEND_INLINE __attribute__((always_inline))

/// kCount values. Unlike the elements of arrays, they stay in registers.
template <typename T, int kCount>
struct Registers {
  T first;
  Registers<T, kCount - 1> rest;

  HWY_INLINE explicit Registers(T value) : first(value), rest(value) {}
  /// Calls `f(value, index)` for each of the values.
  template <typename Function>
  HWY_INLINE void for_each(const Function& f, int index = 0) {
    f(first, index);
    rest.for_each(f, index + 1);
  }
  /// Adds integer sums, multiplied by `scale`.
  template <typename Integers>
  HWY_INLINE void add(const Registers<Integers, kCount>& integers, T scale) {
    first = hn::MulAdd(integers.first.to_float(), scale, first);
    rest.add(integers.rest, scale);
  }
};

template <typename T>
struct Registers<T, 0> {
  HWY_INLINE explicit Registers(T /*value*/) {}
  template <typename Function>
  HWY_INLINE void for_each(const Function& /*f*/, int /*index*/) {}
  template <typename Integers>
  HWY_INLINE void add(const Registers<Integers, 0>& /*integers*/, T /*scale*/) {}
};

HWY_INLINE void store(const RowProduct& product, int64_t row, int64_t output, float sum) {
  if (product.bias != nullptr) sum += product.bias[output];
  product.y[row * product.outputs + output] = sum;
}

template <int kRows, int kOutputs>
HWY_INLINE void multiply_outputs(const RowProduct& product, const float* HWY_RESTRICT x,
                                 const FloatRows& weight, int64_t n) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto columns = product.columns;
  const float* HWY_RESTRICT w = weight.data + n * weight.stride;
  // Sum `index` is that of row index / kOutputs of x and row index % kOutputs of the weight.
  Registers<hn::Vec<Floats>, kRows * kOutputs> sums(hn::Zero(d));
  int64_t k = 0;
  for (; k + lanes <= columns; k += lanes) {
    // The next rows. Without it, 4 and more rows of x are multiplied at 0.7 of the memory's speed.
    if constexpr (kRows > 2) {
      for (int o = 0; o < kOutputs; ++o) hwy::Prefetch(w + (kOutputs + o) * weight.stride + k);
    }
    sums.for_each([&](hn::Vec<Floats>& sum, int index) ATTEND_INLINE {
      const auto input = hn::LoadU(d, x + index / kOutputs * columns + k);
      const auto element = hn::LoadU(d, w + index % kOutputs * weight.stride + k);
      sum = hn::MulAdd(element, input, sum);
    });
  }
  sums.for_each([&](hn::Vec<Floats>& each, int index) ATTEND_INLINE {
    const int r = index / kOutputs;
    const int o = index % kOutputs;
    float sum = hn::GetLane(hn::SumOfLanes(d, each));
    for (int64_t i = k; i < columns; ++i) sum += w[o * weight.stride + i] * x[r * columns + i];
    store(product, r, n + o, sum);
  });
}

/// Sums of products of int16 with the tag D.
template <typename D>
struct IntegerSum {
  using Integers = hn::RepartitionToWide<D>;
  hn::Vec<Integers> even;
  hn::Vec<Integers> odd;

  HWY_INLINE IntegerSum() : even(hn::Zero(Integers())), odd(hn::Zero(Integers())) {}
  /// Adds a * b and c * d. There are two sums, because a sum waits for the previous one.
  HWY_INLINE void add_products(hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> d) {
#if ATTEND_USES_VNNI
    asm("vpdpwssd %2, %1, %0" : "+v"(even.raw) : "v"(a.raw), "vm"(b.raw));
    asm("vpdpwssd %2, %1, %0" : "+v"(odd.raw) : "v"(c.raw), "vm"(d.raw));
#else
    even = hn::ReorderWidenMulAccumulate(Integers(), a, b, even, odd);
    even = hn::ReorderWidenMulAccumulate(Integers(), c, d, even, odd);
#endif
  }
  /// Does the same, but adds each two neighboring products to the sum with the same place.
  HWY_INLINE void add_pairs(hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> d) {
#if HWY_ARCH_X86  // where add_products does so, too
    add_products(a, b, c, d);
#else
    const Integers integers;
    const auto low = [&](auto x) ATTEND_INLINE {
      return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(integers, x)));
    };
    const auto high = [&](auto x)
                          ATTEND_INLINE { return hn::ShiftRight<16>(hn::BitCast(integers, x)); };
    even = hn::Add(even, hn::Add(hn::Mul(low(a), low(b)), hn::Mul(high(a), high(b))));
    odd = hn::Add(odd, hn::Add(hn::Mul(low(c), low(d)), hn::Mul(high(c), high(d))));
#endif
  }
  HWY_INLINE auto to_float() const {
    return hn::ConvertTo(hn::Rebind<float, Integers>(), hn::Add(even, odd));
  }
};

template <int kRows>
HWY_INLINE void multiply_int8(const RowProduct& product, const IntegerInput& x,
                              const Int8Rows& weight, int64_t n) {
  const Shorts d;
  const hn::Rebind<int8_t, Shorts> bytes;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));
  constexpr int64_t kChunk = 512 * lanes / 2;  // 512 * 127 * 32767 is less than 2^31
  const auto columns = padded_columns(product.columns);
  const int8_t* HWY_RESTRICT w = weight.elements + n * columns;
  const int16_t* HWY_RESTRICT inputs = x.elements.data();
  Registers<hn::Vec<Sums>, kRows> sums(hn::Zero(Sums()));
  for (int64_t begin = 0; begin < columns; begin += kChunk) {
    Registers<IntegerSum<Shorts>, kRows> chunk{IntegerSum<Shorts>()};
    const auto end = std::min(begin + kChunk, columns);
    for (int64_t block = begin; block < end; block += kBlock) {
      hwy::Prefetch(w + block + kPrefetchBytes);
      for (int64_t k = block; k < block + kBlock; k += 2 * lanes) {
        const auto first = hn::PromoteTo(d, hn::LoadU(bytes, w + k));
        const auto second = hn::PromoteTo(d, hn::LoadU(bytes, w + k + lanes));
        chunk.for_each([&](IntegerSum<Shorts>& sum, int r) ATTEND_INLINE {
          const auto* input = inputs + r * columns + k;
          sum.add_products(first, hn::LoadU(d, input), second, hn::LoadU(d, input + lanes));
        });
      }
    }
    sums.add(chunk, hn::Set(Sums(), 1.0F));
  }
  sums.for_each([&](hn::Vec<Sums>& each, int r) ATTEND_INLINE {
    const float sum = hn::GetLane(hn::SumOfLanes(Sums(), each));
    store(product, r, n, sum * weight.scales[n] * x.scales[r]);
  });
}

/// Converts numbers of 8 bits to float.
template <typename D, typename T>
HWY_INLINE hn::Vec<D> floats_of(D d, const T* numbers) {
  const hn::Rebind<int32_t, D> integers;
  return hn::ConvertTo(d, hn::PromoteTo(integers, hn::LoadU(hn::Rebind<T, D>(), numbers)));
}

/// Returns the scales of the lanes of the sums: of all lanes twice, of all, or of a part.
HWY_INLINE hn::Vec<Sums> scales_of_lanes(const uint8_t* scales) {
  const hn::CappedTag<float, kLanes> lanes;
  const auto converted = floats_of(lanes, scales);
#if HWY_MAX_BYTES == 64
  return hn::Combine(Sums(), converted, converted);
#else
  return converted;
#endif
}

/// The sums of a chunk are those of its lanes, so that they are converted to float and multiplied
/// by their scales at once.
template <int kRows>
HWY_INLINE void multiply_int4(const RowProduct& product, const IntegerInput& x,
                              const Int4Rows& weight, int64_t n) {
  const Shorts d;
  const hn::RebindToUnsigned<Shorts> unsigned_d;
  const hn::Rebind<uint8_t, Shorts> bytes;
  const hn::CappedTag<float, kLanes> of_lanes;
  constexpr auto lanes = static_cast<int64_t>(hn::MaxLanes(d));  // 8, 16 or 32
  constexpr auto kStep = std::max(lanes, 2 * kLanes);            // 2 elements of all lanes, or 4
  const auto columns = padded_columns(product.columns);
  const auto all_lanes = num_lanes(product.columns);
  const int16_t* HWY_RESTRICT inputs = x.elements.data();
  const float* HWY_RESTRICT lane_sums = x.lane_sums.data();
  const uint8_t* HWY_RESTRICT row = weight.data + n * int4_row_bytes(product.columns);
  const uint8_t* HWY_RESTRICT scales = row + columns / 2;
  const auto* HWY_RESTRICT offsets = reinterpret_cast<const int8_t*>(scales + all_lanes);
  Registers<hn::Vec<Sums>, kRows> sums(hn::Zero(Sums()));
  for (int64_t begin = 0, size = 0; begin < columns; begin += size, scales += kLanes) {
    size = chunk_size(begin, product.columns);
    for (int64_t part = 0; part < kStep; part += lanes) {
      Registers<IntegerSum<Shorts>, kRows> integers{IntegerSum<Shorts>()};
      for (auto block = begin; block < begin + size; block += kBlock) {
        const auto* numbers = row + block / 2;
        hwy::Prefetch(numbers + kPrefetchBytes);
        for (auto i = part; i < kBlock / 2; i += kStep) {
          const auto both = hn::PromoteTo(unsigned_d, hn::LoadU(bytes, numbers + i));
          const auto first = hn::BitCast(d, hn::And(both, hn::Set(unsigned_d, 15)));
          const auto second = hn::BitCast(d, hn::ShiftRight<4>(both));
          const auto* input = inputs + block + i;
          integers.for_each([&](IntegerSum<Shorts>& sum, int r) ATTEND_INLINE {
            sum.add_pairs(first, hn::LoadU(d, input + r * columns), second,
                          hn::LoadU(d, input + r * columns + kBlock / 2));
          });
        }
      }
      sums.add(integers, scales_of_lanes(scales + part / 2));
    }
  }
  Registers<hn::Vec<decltype(of_lanes)>, kRows> offset_sums(hn::Zero(of_lanes));
  for (int64_t i = 0; i < all_lanes; i += static_cast<int64_t>(hn::Lanes(of_lanes))) {
    const auto offset = floats_of(of_lanes, offsets + i);
    offset_sums.for_each([&](auto& sum, int r) ATTEND_INLINE {
      sum = hn::MulAdd(offset, hn::LoadU(of_lanes, lane_sums + r * all_lanes + i), sum);
    });
  }
  const float* units = weight.units + 2 * n;
  std::array<float, kRows> offset_terms;
  offset_sums.for_each([&](auto& sum, int r) ATTEND_INLINE {
    offset_terms[r] = hn::GetLane(hn::SumOfLanes(of_lanes, sum)) * units[1];
  });
  sums.for_each([&](hn::Vec<Sums>& sum, int r) ATTEND_INLINE {
    const auto term = hn::GetLane(hn::SumOfLanes(Sums(), sum)) * units[0];
    store(product, r, n, (term + offset_terms[r]) * x.scales[r]);
  });
}

/// Multiplies several rows of the weight at once, if their sums fit into registers.
template <int kRows>
HWY_INLINE void multiply_range(const RowProduct& product, const float* x, const FloatRows& weight,
                               RowRange range) {
  constexpr int kOutputs = std::clamp((HWY_MAX_BYTES == 64 ? 16 : 8) / kRows, 1, 4);
  int64_t n = range.begin;
  for (; n + kOutputs <= range.end; n += kOutputs) {
    multiply_outputs<kRows, kOutputs>(product, x, weight, n);
  }
  for (; n < range.end; ++n) multiply_outputs<kRows, 1>(product, x, weight, n);
}

template <int kRows>
HWY_INLINE void multiply_range(const RowProduct& product, const IntegerInput& x,
                               const Int8Rows& weight, RowRange range) {
  for (auto n = range.begin; n < range.end; ++n) multiply_int8<kRows>(product, x, weight, n);
}

template <int kRows>
HWY_INLINE void multiply_range(const RowProduct& product, const IntegerInput& x,
                               const Int4Rows& weight, RowRange range) {
  for (auto n = range.begin; n < range.end; ++n) multiply_int4<kRows>(product, x, weight, n);
}

template <typename Input, typename Weight>
HWY_INLINE void multiply_rows(const RowProduct& product, const Input& x, const Weight& weight,
                              RowRange range) {
  switch (product.rows) {
    case 1:
      return multiply_range<1>(product, x, weight, range);
    case 2:
      return multiply_range<2>(product, x, weight, range);
    case 3:
      return multiply_range<3>(product, x, weight, range);
    case 4:
      return multiply_range<4>(product, x, weight, range);
    case 5:
      return multiply_range<5>(product, x, weight, range);
    case 6:
      return multiply_range<6>(product, x, weight, range);
    case 7:
      return multiply_range<7>(product, x, weight, range);
    case 8:
      return multiply_range<8>(product, x, weight, range);
    default:
      return;
  }
}

void MultiplyFloats(const RowProduct& product, const float* x, const FloatRows& weight,
                    RowRange range) {
  multiply_rows(product, x, weight, range);
}

void MultiplyInt8(const RowProduct& product, const IntegerInput& x, const Int8Rows& weight,
                  RowRange range) {
#if ATTEND_USES_VNNI
  if (!has_avx512_vnni()) return N_AVX2::MultiplyInt8(product, x, weight, range);
#endif
  multiply_rows(product, x, weight, range);
}

void MultiplyInt4(const RowProduct& product, const IntegerInput& x, const Int4Rows& weight,
                  RowRange range) {
#if ATTEND_USES_VNNI
  if (!has_avx512_vnni()) return N_AVX2::MultiplyInt4(product, x, weight, range);
#endif
  multiply_rows(product, x, weight, range);
}

/// Rounds a row of x. Returns the scale.
float RoundRow(const float* HWY_RESTRICT x, int64_t columns, int16_t* HWY_RESTRICT elements) {
  const Sums d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::Zero(d);
  int64_t k = 0;
  // NaN would be lost in a maximum; 0 * x is NaN for NaN and infinity.
  auto not_finite = hn::Zero(d);
  for (; k + lanes <= columns; k += lanes) {
    const auto loaded = hn::LoadU(d, x + k);
    largest = hn::Max(largest, hn::Abs(loaded));
    not_finite = hn::MulAdd(loaded, hn::Zero(d), not_finite);
  }
  float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  float check = hn::GetLane(hn::SumOfLanes(d, not_finite));
  for (int64_t i = k; i < columns; ++i) {
    max = std::max(max, std::abs(x[i]));
    check += 0 * x[i];
  }
  if (check != 0) return check;  // NaN
  max = std::max(max, 1e-30F);   // so that the reciprocal is finite
  const float inverse = 32767 / max;
  for (k = 0; k + lanes <= columns; k += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, x + k), hn::Set(d, inverse));
    const hn::Rebind<int16_t, Sums> shorts;
    hn::StoreU(hn::DemoteTo(shorts, hn::NearestInt(scaled)), shorts, elements + k);
  }
  for (; k < columns; ++k) elements[k] = static_cast<int16_t>(std::nearbyint(x[k] * inverse));
  return max / 32767;
}

}  // namespace
}  // namespace attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend {
namespace {

/// Rows of smaller numbers are rounded to zeros, whose scale has a finite reciprocal.
constexpr float kSmallest = 1e-30F;

HWY_EXPORT(MultiplyFloats);
HWY_EXPORT(MultiplyInt8);
HWY_EXPORT(MultiplyInt4);
HWY_EXPORT(RoundRow);

}  // namespace

void multiply(const RowProduct& product, const float* x, const FloatRows& weight, RowRange range) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloats)(product, x, weight, range);
}

void multiply(const RowProduct& product, const IntegerInput& x, const Int8Rows& weight,
              RowRange range) {
  HWY_DYNAMIC_DISPATCH(MultiplyInt8)(product, x, weight, range);
}

void multiply(const RowProduct& product, const IntegerInput& x, const Int4Rows& weight,
              RowRange range) {
  HWY_DYNAMIC_DISPATCH(MultiplyInt4)(product, x, weight, range);
}

IntegerInput to_integers(const float* x, int64_t rows, int64_t columns) {
  const auto padded = padded_columns(columns);
  IntegerInput result;
  result.elements.resize(rows * padded);
  std::vector<int16_t> row(padded);  // in the order of x
  for (int64_t r = 0; r < rows; ++r) {
    result.scales[r] = HWY_DYNAMIC_DISPATCH(RoundRow)(x + r * columns, columns, row.data());
    for (int64_t begin = 0, size = 0; begin < padded; begin += size) {
      size = chunk_size(begin, columns);
      auto* elements = result.elements.data() + r * padded + begin;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const auto* in_lane = row.data() + begin + lane * size / kLanes;
        int sum = 0;
        for (int64_t i = 0; i < size / kLanes; i += 2) {
          auto* two = elements + i * kLanes + 2 * lane;
          two[0] = in_lane[i];
          two[1] = in_lane[i + 1];
          sum += in_lane[i] + in_lane[i + 1];
        }
        result.lane_sums.push_back(static_cast<float>(sum));
      }
    }
  }
  return result;
}

float to_int8(const float* row, int64_t columns, int8_t* elements) {
  float largest = kSmallest;
  bool is_finite = true;
  for (int64_t k = 0; k < columns; ++k) {
    largest = std::max(largest, std::abs(row[k]));
    is_finite = is_finite && std::isfinite(row[k]);
  }
  std::fill_n(elements, padded_columns(columns), int8_t{0});
  if (!is_finite) return std::nanf("");
  const float scale = largest / 127;
  for (int64_t k = 0; k < columns; ++k) {
    elements[place_of(k, columns).index] = static_cast<int8_t>(std::nearbyint(row[k] / scale));
  }
  return scale;
}

void to_int4(const float* row, int64_t columns, uint8_t* data, float* units) {
  const auto count = (columns + kGroup - 1) / kGroup;
  std::vector<std::pair<float, float>> limits;  // of each group
  float largest_range = 0;
  float largest_offset = 0;
  bool is_finite = true;
  for (int64_t first = 0; first < columns; first += kGroup) {
    const auto* end = row + std::min(first + kGroup, columns);
    const auto [min, max] = std::minmax_element(row + first, end);
    limits.emplace_back(*min, *max);
    largest_range = std::max(largest_range, *max - *min);
    largest_offset = std::max(largest_offset, std::abs(*min));
    is_finite =
        is_finite && std::all_of(row + first, end, [](float w) { return std::isfinite(w); });
  }
  std::fill_n(data, int4_row_bytes(columns), uint8_t{0});
  units[0] = is_finite ? std::max(largest_range, kSmallest) / 15 / 255 : std::nanf("");
  units[1] = is_finite ? std::max(largest_offset, kSmallest) / 127 : std::nanf("");
  if (!is_finite) return;
  auto* scales = data + padded_columns(columns) / 2;
  auto* offsets = reinterpret_cast<int8_t*>(scales + num_lanes(columns));
  for (int64_t group = 0; group < count; ++group) {
    const auto [min, max] = limits[group];
    const float scale = std::clamp(std::ceil((max - min) / 15 / units[0]), 1.0F, 255.0F);
    const float offset = std::nearbyint(min / units[1]);
    for (int64_t k = group * kGroup; k < std::min((group + 1) * kGroup, columns); ++k) {
      const float number = std::nearbyint((row[k] - units[1] * offset) / (units[0] * scale));
      const auto bits = static_cast<unsigned>(std::clamp(number, 0.0F, 15.0F));
      const auto [index, lane] = place_of(k, columns);
      const auto in_block = index % kBlock;
      data[index / kBlock * (kBlock / 2) + in_block % (kBlock / 2)] |=
          static_cast<uint8_t>(in_block < kBlock / 2 ? bits : bits << 4);
      scales[lane] = static_cast<uint8_t>(scale);
      offsets[lane] = static_cast<int8_t>(offset);
    }
  }
}

}  // namespace attend
#endif  // HWY_ONCE
