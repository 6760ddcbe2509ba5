#include "support/rounding.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend {
namespace {

/// Half of the distance from 1 to the next number of the dtype.
double unit_roundoff(torch::Dtype dtype) {
  const int bits = dtype == torch::kBFloat16 ? 8
                   : dtype == torch::kHalf   ? 11
                   : dtype == torch::kFloat  ? 24
                                             : 53;
  return std::ldexp(1.0, -bits);
}

/// Numbers below may be rounded to multiples of themselves, or to 0.
double smallest_number(torch::Dtype dtype) {
  return dtype == torch::kHalf     ? std::ldexp(1.0, -24)
         : dtype == torch::kDouble ? std::numeric_limits<double>::min()
                                   : std::numeric_limits<float>::min();
}

torch::Tensor exact(const torch::Tensor& x) {
  return x.detach().to(torch::kCPU, torch::kDouble);
}

/// |a - b|, which is 0 for equal elements, also infinite ones, and infinite for NaN.
torch::Tensor difference(const torch::Tensor& a, const torch::Tensor& b) {
  const auto absolute = (a - b).abs().masked_fill(a.eq(b), 0.0);
  return absolute.masked_fill(absolute.isnan(), std::numeric_limits<double>::infinity());
}

double largest(const torch::Tensor& x) {
  return x.numel() == 0 ? 0.0 : x.max().item<double>();
}

/// Returns, for each result of `function`, the largest change that changes of the leaves by `unit`
/// cause.
std::vector<double> changes(const Tensors& results, const Tensors& leaves,
                            const std::function<Tensors()>& function, double unit) {
  const torch::NoGradGuard no_grad;
  // Smaller changes would be rounded away in float64. A small change of a result is proportional.
  const double step = std::max(unit, std::ldexp(1.0, -43));
  Tensors changed, before;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const auto& result : results) fewest = std::min(fewest, result.numel());
  for (const auto& leaf : leaves) {
    if (!leaf.defined() || leaf.scalar_type() != torch::kDouble) continue;
    changed.push_back(leaf.detach());
    before.push_back(leaf.detach().clone());
  }
  // Its own generator, because the function may seed the default one.
  auto generator = at::detail::createCPUGenerator(
      static_cast<uint64_t>(torch::randint(1 << 30, {}).item<int64_t>()));
  std::vector<double> most(results.size(), 0.0);
  // A change of the leaves may happen to leave a result of few elements almost unchanged.
  const auto samples = fewest == 0 ? 1 : std::clamp<int64_t>(64 / fewest, 3, 8);
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const auto uniform = torch::rand(before[i].sizes(), generator, torch::kDouble);  // [0, 1)
      changed[i].copy_(before[i] * (1 + step * (2 * uniform.to(before[i].device()) - 1)));
    }
    const auto again = [&] {
      const torch::AutoGradMode with_gradients(true);
      return function();
    }();
    for (std::size_t i = 0; i < results.size(); ++i)
      most[i] = std::max(most[i], largest(difference(exact(again[i]), exact(results[i]))));
  }
  for (std::size_t i = 0; i < changed.size(); ++i) changed[i].copy_(before[i]);
  for (auto& change : most) change *= unit / step;
  return most;
}

}  // namespace

testing::AssertionResult within_rounding(const Tensors& found, const Tensors& leaves,
                                         const std::function<Tensors()>& function,
                                         const Rounding& rounding) {
  const auto expected = function();
  if (found.size() != expected.size()) {
    return testing::AssertionFailure()
           << "found " << found.size() << " results, expected " << expected.size();
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].sizes() != expected[i].sizes()) {
      return testing::AssertionFailure() << "result " << i << ": found shape " << found[i].sizes()
                                         << ", expected " << expected[i].sizes();
    }
  }
  // All results are changed by the unit roundoff of the first one's dtype.
  const auto dtype = rounding.dtype.value_or(found.front().scalar_type());
  const double unit = unit_roundoff(dtype);
  const auto change = changes(expected, leaves, function, unit);
  const int rounded_sides = dtype == torch::kDouble ? 2 : 1;
  double largest_term = rounding.largest_term;
  for (const auto& result : expected) {
    const auto finite = exact(result).abs();
    largest_term =
        std::max(largest_term, largest(finite.masked_fill(finite.isfinite().logical_not(), 0.0)));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto y = exact(found[i]), wanted = exact(expected[i]);
    const auto type = found[i].scalar_type();
    const double of_computation =
        rounded_sides *
        (4 * std::sqrt(static_cast<double>(rounding.terms)) * change[i] + 4 * unit * largest_term);
    const auto bound = of_computation + 4 * unit_roundoff(type) * wanted.abs() +
                       std::max(smallest_number(type), smallest_number(dtype));
    // The bound of an infinite element is NaN or infinite; it must be equal.
    const auto error = difference(y, wanted).reshape(-1);
    const auto limit = bound.masked_fill(wanted.isfinite().logical_not(), 0.0).reshape(-1);
    if (error.le(limit).all().item<bool>()) continue;
    const auto worst = (error / limit.clamp_min(std::numeric_limits<double>::min())).argmax();
    const auto at = worst.item<int64_t>();
    return testing::AssertionFailure()
           << "result " << i << ", element " << at << " of " << y.sizes() << ": found "
           << y.reshape(-1)[at].item<double>() << ", expected "
           << wanted.reshape(-1)[at].item<double>() << ", difference " << error[at].item<double>()
           << ", bound " << limit[at].item<double>()
           << " (rounding of the inputs changes results by " << change[i] << ")";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult within_rounding(const torch::Tensor& found, const Tensors& leaves,
                                         const std::function<torch::Tensor()>& function,
                                         const Rounding& rounding) {
  return within_rounding(
      Tensors{found}, leaves, [&] { return Tensors{function()}; }, rounding);
}

testing::AssertionResult equals_in_float64(const Tensors& found, const Tensors& inputs,
                                           const std::function<Tensors(const Tensors&)>& function,
                                           const Rounding& rounding) {
  const auto cast = in_float64(inputs);
  return within_rounding(
      found, cast, [&] { return function(cast); }, rounding);
}

testing::AssertionResult equals_in_float64(const torch::Tensor& found, const Tensors& inputs,
                                           const TensorFunction& function,
                                           const Rounding& rounding) {
  const auto cast = in_float64(inputs);
  return within_rounding(
      Tensors{found}, cast, [&] { return Tensors{function(cast)}; }, rounding);
}

Tensors in_float64(const Tensors& tensors) {
  Tensors cast;
  for (const auto& x : tensors) {
    const bool is_float = x.defined() && x.is_floating_point();
    cast.push_back(is_float ? x.detach().to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true)
                            : x);
  }
  return cast;
}

Tensors leaves_of(const torch::nn::Module& module, const Tensors& inputs) {
  auto leaves = module.parameters();
  leaves.insert(leaves.end(), inputs.begin(), inputs.end());
  return leaves;
}

}  // namespace attend
