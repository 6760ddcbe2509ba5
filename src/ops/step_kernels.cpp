#include "ops/step_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Highway compiles this file once for each instruction set, and chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/step_kernels.cpp"
// Arrays of vectors need vectors of a known size.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
// The macros of highway.h must be defined before.
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace attend::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

/// Keys whose weights are in memory at a time.
constexpr int64_t kKeys = 256;

/// Writes the scores of `kCount` keys from key `s` on.
template <int kCount>
HWY_INLINE void score_keys(const OneQuery& call, int64_t s, float* HWY_RESTRICT scores) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* HWY_RESTRICT keys = call.keys + s * call.key_stride;
  hn::Vec<Floats> sums[kCount];
  for (auto& sum : sums) sum = hn::Zero(d);
  int64_t k = 0;
  for (; k + lanes <= call.head_dim; k += lanes) {
    const auto query = hn::LoadU(d, call.query + k);
    for (int i = 0; i < kCount; ++i) {
      sums[i] = hn::MulAdd(query, hn::LoadU(d, keys + i * call.key_stride + k), sums[i]);
    }
  }
  for (int i = 0; i < kCount; ++i) {
    float sum = hn::GetLane(hn::SumOfLanes(d, sums[i]));
    for (int64_t j = k; j < call.head_dim; ++j)
      sum += call.query[j] * keys[i * call.key_stride + j];
    scores[i] = sum * call.scale;
  }
}

/// Returns the largest score, or NaN if a score is NaN. The last vector is filled with -infinity.
HWY_INLINE float largest_of(const float* HWY_RESTRICT scores, int64_t count) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto largest = hn::LoadU(d, scores);
  auto is_nan = hn::IsNaN(largest);
  for (int64_t s = lanes; s < count; s += lanes) {
    const auto loaded = hn::LoadU(d, scores + s);
    largest = hn::Max(largest, loaded);
    is_nan = hn::Or(is_nan, hn::IsNaN(loaded));
  }
  if (!hn::AllFalse(d, is_nan)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

/// Replaces `scores` by exp(score - largest). Returns their sum.
HWY_INLINE float exponentiate(float* HWY_RESTRICT scores, int64_t count, float largest) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  for (int64_t s = 0; s < count; s += lanes) {
    const auto weights = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + s), hn::Set(d, largest)));
    hn::StoreU(weights, d, scores + s);
    sums = hn::Add(sums, weights);
  }
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

/// Adds the weighted values to columns k to k + kVectors * lanes - 1 of the output.
template <int kVectors>
HWY_INLINE void add_values(const OneQuery& call, const float* HWY_RESTRICT values,
                           const float* HWY_RESTRICT weights, int64_t count, int64_t k) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Two sums for each column, because a sum waits for the previous one.
  hn::Vec<Floats> even[kVectors];
  hn::Vec<Floats> odd[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    even[v] = hn::LoadU(d, call.output + k + v * lanes);
    odd[v] = hn::Zero(d);
  }
  int64_t s = 0;
  for (; s + 2 <= count; s += 2) {
    const float* HWY_RESTRICT row = values + s * call.value_stride + k;
    for (int v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(hn::Set(d, weights[s]), hn::LoadU(d, row + v * lanes), even[v]);
      odd[v] = hn::MulAdd(hn::Set(d, weights[s + 1]),
                          hn::LoadU(d, row + call.value_stride + v * lanes), odd[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    if (s < count) {
      const float* HWY_RESTRICT row = values + s * call.value_stride + k;
      even[v] = hn::MulAdd(hn::Set(d, weights[s]), hn::LoadU(d, row + v * lanes), even[v]);
    }
    hn::StoreU(hn::Add(even[v], odd[v]), d, call.output + k + v * lanes);
  }
}

void AttendOneQuery(const OneQuery& call) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  HWY_ALIGN float weights[kKeys + HWY_MAX_BYTES / sizeof(float)];
  std::fill_n(call.output, call.head_dim, 0.0F);
  float largest = -kInfinity;
  float sum = 0;
  for (int64_t begin = 0; begin < call.count; begin += kKeys) {
    const auto count = std::min(kKeys, call.count - begin);
    int64_t s = 0;
    for (; s + 4 <= count; s += 4) score_keys<4>(call, begin + s, weights + s);
    for (; s < count; ++s) score_keys<1>(call, begin + s, weights + s);
    std::fill_n(weights + count, lanes, -kInfinity);  // the rest of the last vector has weight 0

    const auto previous = largest;
    const auto of_block = largest_of(weights, count);
    if (!(of_block <= largest)) largest = of_block;    // larger, or NaN
    if (largest == -kInfinity) continue;               // all weights so far are 0
    const auto factor = std::exp(previous - largest);  // 0 in the first block
    sum = sum * factor + exponentiate(weights, count, largest);
    if (begin > 0) {
      for (int64_t k = 0; k < call.head_dim; ++k) call.output[k] *= factor;
    }
    const float* values = call.values + begin * call.value_stride;
    int64_t k = 0;
    for (; k + 2 * lanes <= call.head_dim; k += 2 * lanes) {
      add_values<2>(call, values, weights, count, k);
    }
    for (; k + lanes <= call.head_dim; k += lanes) add_values<1>(call, values, weights, count, k);
    for (; k < call.head_dim; ++k) {
      for (int64_t i = 0; i < count; ++i) {
        call.output[k] += weights[i] * values[i * call.value_stride + k];
      }
    }
  }
  for (int64_t k = 0; k < call.head_dim; ++k) call.output[k] /= sum;
}

/// Returns the sum of f(x) over the elements x of a row; `f(d, x)` maps vectors.
template <typename Function>
HWY_INLINE float sum_over(const float* HWY_RESTRICT x, int64_t width, const Function& f) {
  const Floats d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  auto rest = hn::Zero(one);
  int64_t k = 0;
  for (; k + lanes <= width; k += lanes) sums = hn::Add(sums, f(d, hn::LoadU(d, x + k)));
  for (; k < width; ++k) rest = hn::Add(rest, f(one, hn::LoadU(one, x + k)));
  return hn::GetLane(hn::SumOfLanes(d, sums)) + hn::GetLane(rest);
}

void Normalize(const RowNorm& norm) {
  const Floats d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto width = static_cast<float>(norm.width);
  float mean = 0;
  if (norm.subtracts_mean) {
    mean = sum_over(norm.x, norm.width, [](auto /*d*/, auto x) { return x; }) / width;
  }
  const auto centered = [mean](auto tag, auto x) { return hn::Sub(x, hn::Set(tag, mean)); };
  const auto squares = sum_over(norm.x, norm.width, [&](auto tag, auto x) {
    const auto difference = centered(tag, x);
    return hn::Mul(difference, difference);
  });
  const auto factor = static_cast<float>(1 / std::sqrt(squares / width + norm.eps));
  const auto write = [&](auto tag, int64_t k) {
    const auto scaled = hn::Mul(centered(tag, hn::LoadU(tag, norm.x + k)), hn::Set(tag, factor));
    const auto bias = norm.bias == nullptr ? hn::Zero(tag) : hn::LoadU(tag, norm.bias + k);
    hn::StoreU(hn::MulAdd(scaled, hn::LoadU(tag, norm.weight + k), bias), tag, norm.y + k);
  };
  int64_t k = 0;
  for (; k + lanes <= norm.width; k += lanes) write(d, k);
  for (; k < norm.width; ++k) write(one, k);
}

/// Returns 1 / (1 + exp(-x)).
template <typename D, typename V>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  const auto small = hn::Exp(d, hn::Neg(hn::Abs(x)));  // Exp would overflow for large numbers
  const auto result =
      hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), small, one), hn::Add(one, small));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

/// Returns max(x, 0), or NaN for NaN.
template <typename D, typename V>
HWY_INLINE V relu(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}

/// Returns x Phi(x), where Phi is the distribution function of the normal distribution. The error
/// of Phi is at most 1.5e-7 (Abramowitz and Stegun, 7.1.26), as in LibTorch.
template <typename D, typename V>
HWY_INLINE V gelu(D d, V x) {
  const auto z = hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678F));
  const auto t = hn::Div(hn::Set(d, 1.0F), hn::MulAdd(z, hn::Set(d, 0.3275911F), hn::Set(d, 1.0F)));
  auto sum = hn::Set(d, 1.061405429F);
  for (const float c : {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F}) {
    sum = hn::MulAdd(sum, t, hn::Set(d, c));
  }
  // Half of erfc(z).
  const auto tail =
      hn::Mul(hn::Mul(hn::Mul(sum, t), hn::Exp(d, hn::Neg(hn::Mul(z, z)))), hn::Set(d, 0.5F));
  const auto is_negative = hn::Lt(x, hn::Zero(d));
  return hn::Mul(x, hn::IfThenElse(is_negative, tail, hn::Sub(hn::Set(d, 1.0F), tail)));
}

template <typename D, typename V>
HWY_INLINE V gelu_tanh(D d, V x) {
  // (1 + tanh(u)) / 2 = sigmoid(2 u)
  const auto inner = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715F), x);
  return hn::Mul(x, sigmoid(d, hn::Mul(inner, hn::Set(d, 1.5957691216F))));
}

/// Calls `f(d, x)`, which maps vectors.
template <typename Function>
HWY_INLINE void activate_all(const RowActivation& call, const Function& f) {
  const auto write = [&](auto d, int64_t i) {
    const auto y = f(d, hn::LoadU(d, call.x + i));
    hn::StoreU(call.factor == nullptr ? y : hn::Mul(y, hn::LoadU(d, call.factor + i)), d,
               call.y + i);
  };
  const Floats d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= call.count; i += lanes) write(d, i);
  for (; i < call.count; ++i) write(one, i);
}

void ActivateRow(const RowActivation& call) {
  switch (call.activation) {
    case Activation::relu:
      return activate_all(call, [](auto d, auto x) { return relu(d, x); });
    case Activation::relu2:
      return activate_all(call, [](auto d, auto x) {
        const auto positive = relu(d, x);
        return hn::Mul(positive, positive);
      });
    case Activation::gelu:
    case Activation::geglu:
      return activate_all(call, [](auto d, auto x) { return gelu(d, x); });
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return activate_all(call, [](auto d, auto x) { return gelu_tanh(d, x); });
    case Activation::silu:
    case Activation::swiglu:
      return activate_all(call, [](auto d, auto x) { return hn::Mul(x, sigmoid(d, x)); });
    case Activation::glu:
      return activate_all(call, [](auto d, auto x) { return sigmoid(d, x); });
  }
}

}  // namespace
}  // namespace attend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend {
namespace {

HWY_EXPORT(AttendOneQuery);
HWY_EXPORT(Normalize);
HWY_EXPORT(ActivateRow);

}  // namespace

void attend_one_query(const OneQuery& call) {
  HWY_DYNAMIC_DISPATCH(AttendOneQuery)(call);
}

void normalize(const RowNorm& norm) {
  HWY_DYNAMIC_DISPATCH(Normalize)(norm);
}

void activate(const RowActivation& call) {
  HWY_DYNAMIC_DISPATCH(ActivateRow)(call);
}

}  // namespace attend
#endif  // HWY_ONCE
