#include "ops/row_products.h"

#include <algorithm>
#include <cmath>
#include <utility>

// Highway compiles this file once for each instruction set, and chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/row_products.cpp"
// Arrays of vectors need vectors of a known size.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Distance at which quantized weights are prefetched. Without it, they are read at about 0.7 of
/// the speed of the memory.
constexpr int64_t kPrefetchBytes = 3072;

using Floats = hn::ScalableTag<float>;
// A block of Int4Rows is at most one vector.
using Shorts = hn::CappedTag<int16_t, 16>;
using Bytes = hn::Rebind<int8_t, Shorts>;
using Ints = hn::RepartitionToWide<Shorts>;
using Sums = hn::Rebind<float, Ints>;

HWY_INLINE void store(const RowProduct& product, int64_t row, int64_t output, float sum) {
  if (product.bias != nullptr) sum += product.bias[output];
  product.y[row * product.outputs + output] = sum;
}

template <int kRows, int kOutputs>
HWY_INLINE void multiply_outputs(const RowProduct& product, const float* HWY_RESTRICT x,
                                 const FloatRows& weight, int64_t n) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT w = weight.data + n * weight.stride;
  hn::Vec<Floats> sums[kOutputs][kRows];
  for (auto& of_output : sums) {
    for (auto& sum : of_output) sum = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + lanes <= product.columns; k += lanes) {
    hn::Vec<Floats> inputs[kRows];
    for (int r = 0; r < kRows; ++r) inputs[r] = hn::LoadU(d, x + r * product.columns + k);
    for (int o = 0; o < kOutputs; ++o) {
      const auto elements = hn::LoadU(d, w + o * weight.stride + k);
      for (int r = 0; r < kRows; ++r) sums[o][r] = hn::MulAdd(elements, inputs[r], sums[o][r]);
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    for (int r = 0; r < kRows; ++r) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[o][r]));
      for (int64_t i = k; i < product.columns; ++i) {
        sum += w[o * weight.stride + i] * x[r * product.columns + i];
      }
      store(product, r, n + o, sum);
    }
  }
}

/// Sums of products of int16. Some processors add each other product to `odd`.
struct IntegerSum {
  hn::Vec<Ints> even;
  hn::Vec<Ints> odd;

  HWY_INLINE IntegerSum() : even(hn::Zero(Ints())), odd(hn::Zero(Ints())) {}
  HWY_INLINE void add_products(hn::Vec<Shorts> a, hn::Vec<Shorts> b) {
    even = hn::ReorderWidenMulAccumulate(Ints(), a, b, even, odd);
  }
  HWY_INLINE hn::Vec<Sums> to_float() const { return hn::ConvertTo(Sums(), hn::Add(even, odd)); }
};

template <int kRows, int kOutputs>
HWY_INLINE void multiply_outputs(const RowProduct& product, const IntegerInput& x,
                                 const Int8Rows& weight, int64_t n) {
  constexpr int64_t kChunk = 512;  // 512 * 127 * 32767 is less than 2^31
  const Shorts d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto columns = padded_columns(product.columns);
  const int8_t* HWY_RESTRICT w = weight.elements + n * columns;
  const int16_t* HWY_RESTRICT inputs = x.elements.data();
  hn::Vec<Sums> sums[kOutputs][kRows];
  for (auto& of_output : sums) {
    for (auto& sum : of_output) sum = hn::Zero(Sums());
  }
  for (int64_t begin = 0; begin < columns; begin += kChunk) {
    IntegerSum chunk[kOutputs][kRows];
    const auto end = std::min(begin + kChunk, columns);
    for (int64_t block = begin; block < end; block += kBlock) {
      for (int o = 0; o < kOutputs; ++o) hwy::Prefetch(w + o * columns + block + kPrefetchBytes);
      for (int64_t k = block; k < block + kBlock; k += lanes) {
        for (int o = 0; o < kOutputs; ++o) {
          const auto elements = hn::PromoteTo(d, hn::LoadU(Bytes(), w + o * columns + k));
          for (int r = 0; r < kRows; ++r) {
            chunk[o][r].add_products(elements, hn::LoadU(d, inputs + r * columns + k));
          }
        }
      }
    }
    for (int o = 0; o < kOutputs; ++o) {
      for (int r = 0; r < kRows; ++r) sums[o][r] = hn::Add(sums[o][r], chunk[o][r].to_float());
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    for (int r = 0; r < kRows; ++r) {
      const float sum = hn::GetLane(hn::SumOfLanes(Sums(), sums[o][r]));
      store(product, r, n + o, sum * weight.scales[n + o] * x.scales[r]);
    }
  }
}

/// Converts the scales or offsets of a row to float.
template <typename T>
HWY_INLINE void to_floats(const T* HWY_RESTRICT numbers, int64_t count,
                          float* HWY_RESTRICT result) {
  const Sums d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto loaded = hn::LoadU(hn::Rebind<T, Ints>(), numbers + i);
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(Ints(), loaded)), d, result + i);
  }
}

template <int kRows, int kOutputs>
HWY_INLINE void multiply_outputs(const RowProduct& product, const IntegerInput& x,
                                 const Int4Rows& weight, int64_t n) {
  constexpr int64_t kChunk = 64;  // groups
  const Shorts d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Sums floats;
  const auto float_lanes = static_cast<int64_t>(hn::Lanes(floats));
  const auto columns = padded_columns(product.columns);
  const auto groups = padded_groups(product.columns);
  const auto stride = int4_row_bytes(product.columns);
  const int16_t* HWY_RESTRICT inputs = x.elements.data();
  const float* HWY_RESTRICT group_sums = x.group_sums.data();
  hn::Vec<Sums> sums[kOutputs][kRows];
  hn::Vec<Sums> offset_sums[kOutputs][kRows];
  for (int o = 0; o < kOutputs; ++o) {
    for (int r = 0; r < kRows; ++r) sums[o][r] = offset_sums[o][r] = hn::Zero(floats);
  }
  const hn::RebindToUnsigned<Shorts> unsigned_d;
  const auto mask = hn::Set(unsigned_d, 15);
  for (int64_t begin = 0; begin < groups; begin += kChunk) {
    const auto count = std::min(kChunk, groups - begin);
    const auto blocks = std::min(kChunk / 2, columns / kBlock - begin / 2);
    HWY_ALIGN float scales[kOutputs][kChunk];
    for (int o = 0; o < kOutputs; ++o) {
      const auto* row_scales = weight.data + (n + o) * stride + columns / 2 + begin;
      to_floats(row_scales, count, scales[o]);
      for (int64_t i = 0; i < count; i += float_lanes) {
        const auto* offsets = reinterpret_cast<const int8_t*>(row_scales + groups) + i;
        const auto loaded = hn::LoadU(hn::Rebind<int8_t, Ints>(), offsets);
        const auto converted = hn::ConvertTo(floats, hn::PromoteTo(Ints(), loaded));
        for (int r = 0; r < kRows; ++r) {
          const auto of_x = hn::LoadU(floats, group_sums + r * groups + begin + i);
          offset_sums[o][r] = hn::MulAdd(converted, of_x, offset_sums[o][r]);
        }
      }
    }
    for (int64_t block = 0; block < blocks; ++block) {
      const auto first = begin * kGroup + block * kBlock;  // column
      for (int o = 0; o < kOutputs; ++o) {
        const auto* numbers =
            reinterpret_cast<const uint16_t*>(weight.data + (n + o) * stride + first / 2);
        const auto scale0 = hn::Set(floats, scales[o][2 * block]);
        const auto scale1 = hn::Set(floats, scales[o][2 * block + 1]);
        hwy::Prefetch(numbers + kPrefetchBytes / 2);
        for (int64_t i = 0; i < 16; i += lanes) {
          const auto loaded = hn::LoadU(unsigned_d, numbers + i);
          const auto elements0 = hn::BitCast(d, hn::And(loaded, mask));
          const auto elements1 = hn::BitCast(d, hn::And(hn::ShiftRight<4>(loaded), mask));
          const auto elements2 = hn::BitCast(d, hn::And(hn::ShiftRight<8>(loaded), mask));
          const auto elements3 = hn::BitCast(d, hn::ShiftRight<12>(loaded));
          for (int r = 0; r < kRows; ++r) {
            const auto* input = inputs + r * columns + first + i;
            IntegerSum group0;
            IntegerSum group1;
            group0.add_products(elements0, hn::LoadU(d, input));
            group0.add_products(elements1, hn::LoadU(d, input + 16));
            group1.add_products(elements2, hn::LoadU(d, input + 32));
            group1.add_products(elements3, hn::LoadU(d, input + 48));
            sums[o][r] = hn::MulAdd(group0.to_float(), scale0, sums[o][r]);
            sums[o][r] = hn::MulAdd(group1.to_float(), scale1, sums[o][r]);
          }
        }
      }
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    const float* units = weight.units + 2 * (n + o);
    for (int r = 0; r < kRows; ++r) {
      const auto sum = hn::GetLane(hn::SumOfLanes(floats, sums[o][r]));
      const auto offset_sum = hn::GetLane(hn::SumOfLanes(floats, offset_sums[o][r]));
      store(product, r, n + o, (sum * units[0] + offset_sum * units[1]) * x.scales[r]);
    }
  }
}

/// Multiplies `kWanted` rows of the weight at once, and the rest one by one.
template <int kRows, int kWanted, typename Input, typename Weight>
HWY_INLINE void multiply_range(const RowProduct& product, const Input& x, const Weight& weight,
                               RowRange range) {
  constexpr int kOutputs = std::max(kWanted, 1);
  int64_t n = range.begin;
  for (; n + kOutputs <= range.end; n += kOutputs) {
    multiply_outputs<kRows, kOutputs>(product, x, weight, n);
  }
  for (; n < range.end; ++n) multiply_outputs<kRows, 1>(product, x, weight, n);
}

/// `kAtOnce`: number of rows of the weight that are multiplied at once for one row of x. For more
/// rows of x it is smaller, so that the sums fit into registers.
template <int kAtOnce, typename Input, typename Weight>
HWY_INLINE void multiply_rows(const RowProduct& product, const Input& x, const Weight& weight,
                              RowRange range) {
  switch (product.rows) {
    case 1:
      return multiply_range<1, kAtOnce / 1>(product, x, weight, range);
    case 2:
      return multiply_range<2, kAtOnce / 2>(product, x, weight, range);
    case 3:
      return multiply_range<3, kAtOnce / 3>(product, x, weight, range);
    case 4:
      return multiply_range<4, kAtOnce / 4>(product, x, weight, range);
    case 5:
      return multiply_range<5, kAtOnce / 5>(product, x, weight, range);
    case 6:
      return multiply_range<6, kAtOnce / 6>(product, x, weight, range);
    case 7:
      return multiply_range<7, kAtOnce / 7>(product, x, weight, range);
    case 8:
      return multiply_range<8, kAtOnce / 8>(product, x, weight, range);
    default:
      return;
  }
}

void MultiplyFloats(const RowProduct& product, const float* x, const FloatRows& weight,
                    RowRange range) {
  multiply_rows<4>(product, x, weight, range);
}

void MultiplyInt8(const RowProduct& product, const IntegerInput& x, const Int8Rows& weight,
                  RowRange range) {
  multiply_rows<1>(product, x, weight, range);
}

void MultiplyInt4(const RowProduct& product, const IntegerInput& x, const Int4Rows& weight,
                  RowRange range) {
  multiply_rows<2>(product, x, weight, range);
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
  const auto groups = padded_groups(columns);
  IntegerInput result;
  result.elements.resize(rows * padded);
  result.group_sums.resize(rows * groups);
  for (int64_t r = 0; r < rows; ++r) {
    auto* elements = result.elements.data() + r * padded;
    result.scales[r] = HWY_DYNAMIC_DISPATCH(RoundRow)(x + r * columns, columns, elements);
    for (int64_t group = 0; group < padded / kGroup; ++group) {
      int sum = 0;
      for (int64_t i = 0; i < kGroup; ++i) sum += elements[group * kGroup + i];
      result.group_sums[r * groups + group] = static_cast<float>(sum);
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
    elements[k] = static_cast<int8_t>(std::nearbyint(row[k] / scale));
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
  auto* offsets = reinterpret_cast<int8_t*>(scales + padded_groups(columns));
  for (int64_t group = 0; group < count; ++group) {
    const auto [min, max] = limits[group];
    const float scale = std::clamp(std::ceil((max - min) / 15 / units[0]), 1.0F, 255.0F);
    const float offset = std::nearbyint(min / units[1]);
    scales[group] = static_cast<uint8_t>(scale);
    offsets[group] = static_cast<int8_t>(offset);
    for (int64_t k = group * kGroup; k < std::min((group + 1) * kGroup, columns); ++k) {
      const float number = std::nearbyint((row[k] - units[1] * offset) / (units[0] * scale));
      const auto bits = static_cast<unsigned>(std::clamp(number, 0.0F, 15.0F));
      const auto place = int4_place(k);
      data[place.byte] |= static_cast<uint8_t>(bits << place.shift);
    }
  }
}

}  // namespace attend
#endif  // HWY_ONCE
