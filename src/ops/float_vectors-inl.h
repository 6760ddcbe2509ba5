// Vectors of float32 that are read from float32 or bfloat16. Included after hwy/foreach_target.h,
// once for each instruction set: hence no #pragma once.
#if defined(ATTEND_FLOAT_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_FLOAT_VECTORS_INL
#undef ATTEND_FLOAT_VECTORS_INL
#else
#define ATTEND_FLOAT_VECTORS_INL
#endif

#include "ops/bfloat16_bits.h"

// clang-format off
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
using Words = hn::Rebind<uint32_t, Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;

HWY_INLINE Vector load(const float* x) {
  return hn::LoadU(Floats(), x);
}

HWY_INLINE Vector load(const BFloat16Bits* x) {
  const auto halves = hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(x));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), halves)));
}

HWY_INLINE void store(Vector values, float* x) {
  hn::StoreU(values, Floats(), x);
}

/// Rounds to the nearest bfloat16, as LibTorch does.
HWY_INLINE void store(Vector values, BFloat16Bits* x) {
  const Words words;
  const auto bits = hn::BitCast(words, values);
  const auto half = hn::Add(hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1)),
                            hn::Set(words, 0x7FFF));  // to the even neighbor
  const auto not_a_number = hn::RebindMask(words, hn::IsNaN(values));
  const auto rounded =
      hn::IfThenElse(not_a_number, hn::Set(words, 0x7FC0), hn::ShiftRight<16>(hn::Add(bits, half)));
  const hn::Rebind<int32_t, Floats> integers;
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(integers, rounded)), Halves(),
             reinterpret_cast<uint16_t*>(x));
}

/// exp(x), and NaN for NaN, which hn::Exp does not return.
HWY_INLINE Vector exp_of(Vector x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(Floats(), x));
}

}  // namespace
}  // namespace attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
