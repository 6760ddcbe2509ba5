#include "export/compare.h"

#include "export/shape_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace attend {
namespace {

constexpr int64_t kSliceElements = int64_t{1} << 20;
/// Two computations that round differently may differ by several times the change that one
/// rounding of each weight causes.
constexpr double kRoundings = 4.0;
/// Limit of the differences that rounding may explain, in multiples of the tolerance: an output
/// that jumps, such as an index that is converted to a float, would otherwise not be compared.
constexpr double kMaxTolerances = 100.0;

/// Splits two tensors of the same shape into slices of at most kSliceElements elements, and calls
/// `function` with each pair of corresponding slices.
template <typename Function>
void for_each_slice(const torch::Tensor& one, const torch::Tensor& other,
                    const Function& function) {
  if (one.numel() == 0) return;
  if (one.numel() <= kSliceElements) return function(one, other);
  const auto rows = kSliceElements / (one.numel() / one.size(0));
  if (rows == 0) {
    for (int64_t i = 0; i < one.size(0); ++i) for_each_slice(one[i], other[i], function);
    return;
  }
  for (int64_t begin = 0; begin < one.size(0); begin += rows) {
    const auto end = std::min(begin + rows, one.size(0));
    function(one.slice(0, begin, end), other.slice(0, begin, end));
  }
}

/// Returns the values as float64. For a complex tensor, the result has an additional last dimension
/// of size 2, which contains the real and the imaginary part.
torch::Tensor as_double(const torch::Tensor& tensor) {
  const auto real = tensor.is_complex() ? torch::view_as_real(tensor.resolve_conj()) : tensor;
  return real.to(torch::kDouble);
}

double largest_finite(const torch::Tensor& tensor) {
  double largest = 0.0;
  for_each_slice(tensor, tensor, [&](const torch::Tensor& slice, const torch::Tensor& /*same*/) {
    const auto values = as_double(slice).abs();
    const auto finite = values.masked_fill(values.isfinite().logical_not(), 0.0);
    largest = std::max(largest, finite.max().item<double>());
  });
  return largest;
}

}  // namespace

double compare(const torch::Tensor& found, const torch::Tensor& expected, double tolerance,
               const std::string& beginning, const std::function<double()>& rounding) {
  if (found.sizes() != expected.sizes()) {
    throw std::runtime_error(fmt::format("{} shape {}, expected the module's shape {}", beginning,
                                         shape_text(found), shape_text(expected)));
  }
  if (found.scalar_type() != expected.scalar_type()) {
    throw std::runtime_error(fmt::format("{} dtype {}, expected the module's dtype {}", beginning,
                                         c10::toString(found.scalar_type()),
                                         c10::toString(expected.scalar_type())));
  }
  const bool is_integral = c10::isIntegralType(expected.scalar_type(), /*includeBool=*/true);
  const auto largest = is_integral ? 0.0 : largest_finite(expected);
  double max_difference = 0.0;
  std::optional<double> rounded;  // result of `rounding`
  for_each_slice(found, expected, [&](const torch::Tensor& some, const torch::Tensor& exact) {
    const auto y = as_double(some);
    const auto e = as_double(exact);
    // Integers are compared without conversion, since float64 cannot represent all int64 values.
    const auto equal =
        is_integral ? some == exact : (y == e).logical_or(y.isnan().logical_and(e.isnan()));
    const auto difference = (y - e).abs().masked_fill(equal, 0.0);
    auto allowed = tolerance * (1 + e.abs()).clamp_max(largest);
    // If only one of the two values is NaN, the difference is NaN, and `difference <= allowed` is
    // false.
    const auto are_close = [&] { return (difference <= allowed).logical_or(equal); };
    auto within = is_integral ? equal : are_close();
    if (rounding && !is_integral && !within.all().item<bool>()) {
      if (!rounded) rounded = kRoundings * rounding();
      allowed = allowed.max(allowed.mul(kMaxTolerances).clamp_max(*rounded));
      within = are_close();
    }
    if (!within.all().item<bool>()) {
      const auto wrong = difference.masked_fill(within, -1.0).argmax();
      if (is_integral) {
        throw std::runtime_error(fmt::format("{} {}, expected the module's value {}", beginning,
                                             some.flatten()[wrong].item<int64_t>(),
                                             exact.flatten()[wrong].item<int64_t>()));
      }
      throw std::runtime_error(fmt::format(
          "{} {:.6g}, expected the module's value {:.6g} to "
          "within {:.3g} (ExportOptions::tolerance is {:.3g})",
          beginning, y.flatten()[wrong].item<double>(), e.flatten()[wrong].item<double>(),
          allowed.flatten()[wrong].item<double>(), tolerance));
    }
    max_difference = std::max(max_difference, difference.max().item<double>());
  });
  return max_difference;
}

}  // namespace attend
