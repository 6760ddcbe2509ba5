#include "attend/nn/checkpoint.h"

#include "attend/ops/attention_recorder.h"
#include "nn/autocast_guard.h"
#include "nn/rng_state.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <unordered_set>
#include <utility>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Function = std::function<torch::Tensor(const variable_list&)>;

/// RNG and autocast state at the time of the forward pass.
class RngAutocastState {
 public:
  explicit RngAutocastState(torch::Device device)
      : device_(device),
        rng_(rng_state(device)),
        cpu_autocast_(autocast_state(torch::kCPU)),
        device_autocast_(autocast_state(device.type())) {}

  /// Sets this state until the end of the scope.
  class Guard {
   public:
    explicit Guard(const RngAutocastState& state)
        : rng_(state.device_, state.rng_),
          cpu_(torch::kCPU, state.cpu_autocast_),
          device_(state.device_.type(), state.device_autocast_) {
      // A weight cast in the forward pass has no graph here, and must not be reused.
      at::autocast::set_autocast_cache_enabled(false);
    }
    ~Guard() { at::autocast::set_autocast_cache_enabled(cache_enabled_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    RngGuard rng_;
    AutocastGuard cpu_;
    AutocastGuard device_;
    bool cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  };

 private:
  torch::Device device_;
  RngState rng_;
  AutocastState cpu_autocast_;
  AutocastState device_autocast_;
};

/// Everything that the backward pass needs to run the function again.
struct Recomputation : torch::CustomClassHolder {
  Recomputation(Function function, std::size_t num_arguments, torch::Device device)
      : function(std::move(function)), num_arguments(num_arguments), state(device) {}

  torch::Tensor run(const variable_list& arguments) const {
    const torch::AutoGradMode with_gradients(true);
    const RngAutocastState::Guard as_in_forward(state);
    const AttentionRecorderPause recorder_pause;  // the forward pass has recorded the weights
    return function(arguments);
  }

  Function function;
  std::size_t num_arguments;
  RngAutocastState state;
};

/// Its inputs are the function's arguments, then the parameters: autograd then tracks both.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static torch::Tensor forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Recomputation>& recomputation) {
    context->save_for_backward(inputs.vec());  // detects changes in place, too
    context->saved_data["recomputation"] = c10::IValue::make_capsule(recomputation);
    return recomputation->function(inputs.slice(0, recomputation->num_arguments).vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !torch::GradMode::is_enabled(),
        "checkpoint does not support double backward (create_graph = true): "
        "call the function without checkpoint");
    auto inputs = context->get_saved_variables();
    const auto recomputation = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data["recomputation"].toCapsule());
    variable_list arguments;
    for (std::size_t i = 0; i < recomputation->num_arguments; ++i) {
      // Detached: the argument's own graph, which may contain the parameters, is not recomputed.
      inputs[i] = inputs[i].detach().requires_grad_(context->needs_input_grad(i));
      arguments.push_back(inputs[i]);
    }
    const auto output = recomputation->run(arguments);

    variable_list gradients(inputs.size() + 1);  // none for the recomputation
    if (!output.requires_grad()) return gradients;
    variable_list targets;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!context->needs_input_grad(i)) continue;
      targets.push_back(inputs[i]);
      indices.push_back(i);
    }
    const auto computed = torch::autograd::grad({output}, targets, output_gradients,
                                                /*retain_graph=*/false, /*create_graph=*/false,
                                                /*allow_unused=*/true);
    for (std::size_t i = 0; i < indices.size(); ++i) gradients[indices[i]] = computed[i];
    return gradients;
  }
};

/// Returns the parameters that require a gradient, without duplicates.
variable_list trainable(const std::vector<torch::Tensor>& parameters) {
  variable_list result;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& parameter : parameters) {
    TORCH_CHECK_VALUE(parameter.is_leaf(),
                      "checkpoint parameters must be leaf tensors, found a non-leaf of shape ",
                      parameter.sizes());
    const bool is_new = seen.insert(parameter.unsafeGetTensorImpl()).second;
    if (is_new && parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

}  // namespace

torch::Tensor checkpoint(const Function& function, const std::vector<torch::Tensor>& arguments,
                         const std::vector<torch::Tensor>& parameters) {
  TORCH_CHECK_VALUE(!arguments.empty(), "arguments (0) must contain at least one tensor");
  if (!torch::GradMode::is_enabled()) return function(arguments);
  auto inputs = arguments;
  for (const auto& parameter : trainable(parameters)) inputs.push_back(parameter);
  return Checkpoint::apply(
      at::TensorList(inputs),
      c10::make_intrusive<Recomputation>(function, arguments.size(), arguments[0].device()));
}

torch::Tensor checkpoint(const std::function<torch::Tensor(const torch::Tensor&)>& function,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  const auto list_function = [function](const variable_list& arguments) {
    return function(arguments[0]);
  };
  return checkpoint(Function(list_function), {x}, parameters);
}

}  // namespace attend
