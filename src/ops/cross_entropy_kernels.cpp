#include "ops/cross_entropy_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Highway compiles this file once for each instruction set, and chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy_kernels.cpp"
// Buffers need vectors of a known size.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
// clang-format off
#include <hwy/foreach_target.h>  // must precede the others
#include "ops/float_vectors-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

constexpr int64_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns the last `count` elements of a row, and 0 in the other lanes.
template <typename T>
HWY_INLINE Vector load_rest(const T* x, int64_t count) {
  T buffer[kMaxLanes] = {};
  std::copy_n(x, count, buffer);
  return load(buffer);
}

template <typename T>
HWY_INLINE void store_rest(Vector values, int64_t count, T* x) {
  T buffer[kMaxLanes];
  store(values, buffer);
  std::copy_n(buffer, count, x);
}

/// Calls `function` with each vector of a row. The rest of the last one is filled with -infinity.
template <typename T, typename Function>
HWY_INLINE void for_each_vector(const T* row, int64_t count, const Function& function) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) function(load(row + k));
  if (k == count) return;
  const auto is_in_row = hn::FirstN(d, static_cast<std::size_t>(count - k));
  function(hn::IfThenElse(is_in_row, load_rest(row + k, count - k), hn::Set(d, -kInfinity)));
}

template <typename T>
LogNormalizer normalizer(const T* logits, int64_t count) {
  const Floats d;
  auto largest = hn::Set(d, -kInfinity);
  auto is_nan = hn::IsNaN(largest);
  for_each_vector(logits, count, [&](Vector x) HWY_ATTR {
    largest = hn::Max(largest, x);
    is_nan = hn::Or(is_nan, hn::IsNaN(x));
  });
  if (!hn::AllFalse(d, is_nan)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  largest = hn::MaxOfLanes(d, largest);
  auto sums = hn::Zero(d);
  for_each_vector(logits, count,
                  [&](Vector x) HWY_ATTR { sums = hn::Add(sums, exp_of(hn::Sub(x, largest))); });
  return {hn::GetLane(largest), std::log(hn::GetLane(hn::SumOfLanes(d, sums)))};
}

template <typename T>
void gradient(const LogitsGradient<T>& row) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto largest = hn::Set(d, row.normalizer.largest);
  const auto log_sum = hn::Set(d, row.normalizer.log_sum);
  const auto factor = hn::Set(d, row.factor);
  const auto probabilities = [&](Vector x)
                                 HWY_ATTR { return exp_of(hn::Sub(hn::Sub(x, largest), log_sum)); };
  int64_t k = 0;
  for (; k + lanes <= row.count; k += lanes)
    store(hn::Mul(factor, probabilities(load(row.logits + k))), row.gradient + k);
  const auto rest = row.count - k;
  store_rest(hn::Mul(factor, probabilities(load_rest(row.logits + k, rest))), rest,
             row.gradient + k);
  const auto of_target = probabilities(load_rest(row.logits + row.target, 1));
  store_rest(hn::Mul(factor, hn::Sub(of_target, hn::Set(d, 1.0F))), 1, row.gradient + row.target);
}

LogNormalizer NormalizerOfFloats(const float* logits, int64_t count) {
  return normalizer(logits, count);
}

LogNormalizer NormalizerOfBFloat16(const BFloat16Bits* logits, int64_t count) {
  return normalizer(logits, count);
}

void GradientOfFloats(const LogitsGradient<float>& row) {
  gradient(row);
}

void GradientOfBFloat16(const LogitsGradient<BFloat16Bits>& row) {
  gradient(row);
}

}  // namespace
}  // namespace attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend {
namespace {

HWY_EXPORT(NormalizerOfFloats);
HWY_EXPORT(NormalizerOfBFloat16);
HWY_EXPORT(GradientOfFloats);
HWY_EXPORT(GradientOfBFloat16);

}  // namespace

LogNormalizer normalizer_of(const float* logits, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(NormalizerOfFloats)(logits, count);
}

LogNormalizer normalizer_of(const BFloat16Bits* logits, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(NormalizerOfBFloat16)(logits, count);
}

void compute(const LogitsGradient<float>& row) {
  HWY_DYNAMIC_DISPATCH(GradientOfFloats)(row);
}

void compute(const LogitsGradient<BFloat16Bits>& row) {
  HWY_DYNAMIC_DISPATCH(GradientOfBFloat16)(row);
}

}  // namespace attend
#endif  // HWY_ONCE
