#pragma once

#include "support/trace.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>

namespace attend {

/// How the results that `within_rounding` checks were computed.
struct Rounding {
  std::optional<torch::Dtype> dtype = {};  ///< dtype of the computation; default: of the result
  int64_t terms = 64;                      ///< number of terms of the longest sum
  double largest_term = 0.0;  ///< magnitude of intermediate results, if larger than the results
};

/// Succeeds if `found` equals the results of `function`, except for the effects of rounding. Their
/// bound follows the magnitude and the condition of the case, because it is measured: `function` is
/// computed again with all numbers in `leaves` changed at random, by at most the unit roundoff of
/// the dtype. Rounding errors of intermediate results have the same effect as larger changes of the
/// leaves: in a sum, the errors of the partial sums add up to the root of the number of terms times
/// the error of a term. The bound of a result is therefore 4 * sqrt(terms) times its largest
/// change; plus four roundings of the largest element of all results or of `largest_term`, since
/// terms of this size may cancel out; plus, for each element, four roundings of the element itself,
/// in its dtype. The first two are doubled in float64, in which the expected results are rounded,
/// too.
///
/// `leaves`: the float64 tensors that `function` reads, such as parameters and inputs. They are
/// changed in place and restored. Tensors of other dtypes and undefined tensors are not changed.
testing::AssertionResult within_rounding(const Tensors& found, const Tensors& leaves,
                                         const std::function<Tensors()>& function,
                                         const Rounding& rounding = {});

/// The same for a function with one result.
testing::AssertionResult within_rounding(const torch::Tensor& found, const Tensors& leaves,
                                         const std::function<torch::Tensor()>& function,
                                         const Rounding& rounding = {});

/// As `within_rounding`, with `function(inputs in float64)` as the expected results.
///
///     EXPECT_TRUE(equals_in_float64(apply_linear(x, weight), {x, weight}, [](const Tensors& in) {
///       return torch::linear(in[0], in[1]);
///     }));
testing::AssertionResult equals_in_float64(const Tensors& found, const Tensors& inputs,
                                           const std::function<Tensors(const Tensors&)>& function,
                                           const Rounding& rounding = {});
testing::AssertionResult equals_in_float64(const torch::Tensor& found, const Tensors& inputs,
                                           const TensorFunction& function,
                                           const Rounding& rounding = {});

/// Returns float64 copies of the float tensors, and the other tensors.
Tensors in_float64(const Tensors& tensors);

/// Returns the parameters of the module and `inputs`, as leaves for `within_rounding`.
Tensors leaves_of(const torch::nn::Module& module, const Tensors& inputs);

/// The same for a module, whose parameters are changed too. `function(module, inputs)` is called
/// with a clone of the module in float64.
template <typename Holder, typename Function>
testing::AssertionResult equals_in_float64(const torch::Tensor& found, const Holder& module,
                                           const Tensors& inputs, const Function& function,
                                           const Rounding& rounding = {}) {
  Holder exact(std::dynamic_pointer_cast<typename Holder::ContainedType>(module->clone()));
  exact->to(torch::kDouble);
  const auto cast = in_float64(inputs);
  return within_rounding(
      found, leaves_of(*exact, cast), [&]() -> torch::Tensor { return function(exact, cast); },
      rounding);
}

}  // namespace attend
