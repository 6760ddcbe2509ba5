#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/enum_names.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/norms.h"

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// Placement of the norms in a block.
enum class NormOrder {
  pre,       ///< x + f(norm(x)), as in GPT-2
  post,      ///< norm(x + f(x)), as in Vaswani et al. 2017
  sandwich,  ///< x + norm(f(norm(x))), as in Gemma 2; also called peri-LN
  parallel,  ///< x + attention(norm(x)) + feed_forward(norm(x)), one norm for both, as in GPT-J
};

template <>
struct EnumNames<NormOrder> {
  static constexpr std::array<std::string_view, 4> names{"pre", "post", "sandwich", "parallel"};
};

/// Options for a residual branch.
///
///     ResidualOptions().norm(rms_norm()).norm_order(NormOrder::sandwich).stochastic_depth(0.1)
struct ResidualOptions {
  /// Factory of the norms.
  ATTEND_ARG(ModuleFactory, norm) = layer_norm();
  /// Placement of the norms.
  ATTEND_ARG(NormOrder, norm_order) = NormOrder::pre;
  /// Factory of a module that scales the output of the branch: `layer_scale()`, `rezero()` or
  /// `constant_scale(0.5)`; none if not set.
  ATTEND_ARG(ModuleFactory, scale);
  /// Dropout probability of the output of the branch.
  ATTEND_ARG(double, dropout) = 0.0;
  /// Probability that a sequence skips the branch in training (stochastic depth, Huang et al.
  /// 2016).
  ATTEND_ARG(double, stochastic_depth) = 0.0;
};

/// A residual branch, x + f(x) with norms, scale, dropout and stochastic depth. Its modules are
/// registered in the block that it belongs to.
///
///     Residual residual(*this, "1", 64, options);            // in a module's reset()
///     x = residual(x, [&](auto h) { return feed_forward(h); });  // in its forward
class ATTEND_API Residual {
 public:
  /// An empty branch, to be assigned to.
  Residual() = default;

  /// Registers in `owner` `norm<name>` and, depending on the options, `norm<name>_out`,
  /// `scale<name>`, `dropout<name>` and `stochastic_depth<name>`. Throws c10::ValueError if an
  /// option is out of range.
  Residual(torch::nn::Module& owner, const std::string& name, int64_t width,
           const ResidualOptions& options);

  /// Returns the output of the branch around `function`, for `x` (..., T, E); the same shape.
  template <typename Function>
  torch::Tensor operator()(const torch::Tensor& x, const Function& function) {
    auto branch = function(run(before_, x));
    return run(after_, x + run(inside_, branch));
  }

 private:
  static torch::Tensor run(std::vector<torch::nn::AnyModule>& modules, torch::Tensor x) {
    for (auto& module : modules) x = module.forward(x);
    return x;
  }

  std::vector<torch::nn::AnyModule> before_;  // applied to the input of the function
  std::vector<torch::nn::AnyModule> inside_;  // applied to its output
  std::vector<torch::nn::AnyModule> after_;   // applied to the sum
};

}  // namespace attend
