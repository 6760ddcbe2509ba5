#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/norms.h"

#include <torch/arg.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace attend {

/// Where the norm of a residual branch stands.
enum class NormOrder {
  pre,       ///< x + f(norm(x)), as in GPT-2: trains without warm-up
  post,      ///< norm(x + f(x)), as in Vaswani et al. 2017 and in Bloem's drawing
  sandwich,  ///< x + norm(f(norm(x))), as in Gemma 2; also called peri-norm
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
  /// Makes each norm of the branch.
  TORCH_ARG(ModuleFactory, norm) = layer_norm();
  TORCH_ARG(NormOrder, norm_order) = NormOrder::pre;
  /// Makes what scales the branch's result, such as `layer_scale()`, `rezero()` or
  /// `constant_scale(0.5)`; nothing does if not set.
  TORCH_ARG(ModuleFactory, scale);
  /// Probability that an element of the branch's result is dropped while training.
  TORCH_ARG(double, dropout) = 0.0;
  /// Probability that the whole branch is dropped for a sequence while training (Huang et al.
  /// 2016).
  TORCH_ARG(double, stochastic_depth) = 0.0;
};

/// A residual branch: what happens around a function f of (..., T, E) between x and x + f(x).
/// Its modules (norms, scale, dropout) belong to the block that makes it and are registered there.
///
///     Residual residual(*this, "1", 64, options);            // in a module's reset()
///     x = residual(x, [&](auto h) { return feed_forward(h); });  // in its forward
class ATTEND_API Residual {
 public:
  Residual() = default;

  /// Registers in `owner`: `norm<name>` and, as options ask for them, `norm<name>_out`,
  /// `scale<name>`. Throws c10::ValueError for an option out of range.
  Residual(torch::nn::Module& owner, const std::string& name, int64_t width,
           const ResidualOptions& options);

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

  std::vector<torch::nn::AnyModule> before_;  // on the branch's input
  std::vector<torch::nn::AnyModule> inside_;  // on its result
  std::vector<torch::nn::AnyModule> after_;   // on the sum
};

}  // namespace attend
