#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/enum_names.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/norms.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include <memory>
#include <string>
#include <vector>

namespace attend {

/// Placement of the norms in a block.
enum class NormOrder {
  pre,       ///< x + f(norm(x)), as in GPT-2
  post,      ///< norm(x + f(x)), as in Vaswani et al. 2017
  sandwich,  ///< x + norm(f(norm(x))), as in Gemma 2; also called peri-LN
  parallel,  ///< x + attention(norm(x)) + feed_forward(norm(x)), one norm for both, as in GPT-J
  parallel_separate_norms,  ///< as parallel, with a norm for each branch, as in GPT-NeoX
};

template <>
struct EnumNames<NormOrder> {
  static constexpr std::array<std::string_view, 5> names{"pre", "post", "sandwich", "parallel",
                                                         "parallel_separate_norms"};
};

/// Options for a residual branch.
///
///     ResidualOptions().norm(rms_norm()).norm_order(NormOrder::sandwich).stochastic_depth(0.1)
struct ResidualOptions {
  /// Factory of the norms.
  ATTEND_ARG(ModuleFactory, norm) = layer_norm();
  /// Placement of the norms.
  ATTEND_ARG(NormOrder, norm_order) = NormOrder::pre;
  /// Factory of a module that scales the output of the branch, e.g. `layer_scale()`, `rezero()` or
  /// `constant_scale(0.5)`; if not set, the output is not scaled.
  ATTEND_ARG(ModuleFactory, branch_scale);
  /// Dropout probability of the output of the branch.
  ATTEND_ARG(double, dropout) = 0.0;
  /// Probability that a sequence skips the branch in training (stochastic depth, Huang et al.
  /// 2016).
  ATTEND_ARG(double, stochastic_depth) = 0.0;
};

/// A residual branch: x + f(x), with norms, scale, dropout and stochastic depth. The modules of the
/// branch are registered in the block that contains the branch.
///
///     Residual residual(*this, "1", 64, options);                // in a module's reset()
///     x = residual(x, [&](auto h) { return feed_forward(h); });  // in its forward
class ATTEND_API Residual {
 public:
  /// An empty branch; assign another branch before use.
  Residual() = default;

  /// Registers these submodules in `owner`: `norm<name>` and, depending on the options,
  /// `norm<name>_out`, `scale<name>`, `dropout<name>` and `stochastic_depth<name>`. Throws
  /// c10::ValueError if an option is out of range, if `norm` is empty, or if a factory returns an
  /// empty module.
  Residual(torch::nn::Module& owner, const std::string& name, int64_t width,
           const ResidualOptions& options);

  /// Applies the residual branch to `x` (..., T, E), with `function` as f; returns a tensor of the
  /// same shape.
  template <typename Function>
  torch::Tensor operator()(const torch::Tensor& x, const Function& function) {
    return run(after_, x + branch(x, function));
  }

  /// Returns only the term that the branch adds to `x`, a tensor of the shape of `x`. A block with
  /// parallel branches adds the terms itself.
  template <typename Function>
  torch::Tensor branch(const torch::Tensor& x, const Function& function) {
    return run(inside_, function(run(before_, x)));
  }

  /// Throws c10::ValueError if a module of the branch has been replaced in `owner`
  /// (`replace_module`): the branch would still call the old module. `children`: the result of
  /// `owner.children()`, passed so that a block calls `children()` only once for all its branches.
  void check_registered(const torch::nn::Module& owner,
                        const std::vector<std::shared_ptr<torch::nn::Module>>& children) const;

  /// A module of the branch.
  struct Named {
    std::string name;             ///< name of the submodule
    torch::nn::AnyModule module;  ///< the submodule
  };
  /// Returns the modules that are applied to the input of the function.
  const std::vector<Named>& before() const { return before_; }
  /// Returns the modules that are applied to the output of the function.
  const std::vector<Named>& inside() const { return inside_; }
  /// Returns the modules that are applied to the sum.
  const std::vector<Named>& after() const { return after_; }

 private:
  static torch::Tensor run(std::vector<Named>& modules, torch::Tensor x) {
    for (auto& each : modules) x = each.module.forward(x);
    return x;
  }

  std::vector<Named> before_;
  std::vector<Named> inside_;
  std::vector<Named> after_;
};

}  // namespace attend
