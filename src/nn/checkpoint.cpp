#include "attend/nn/checkpoint.h"

#include "attend/ops/attention_recorder.h"
#include "attend/ops/fast_kernels.h"
#include "ops/autocast.h"
#include "ops/rng_state.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Function = std::function<variable_list(const variable_list&)>;

/// Returns the CPU and the devices of `tensors`, without duplicates and without the meta device.
std::vector<torch::Device> devices_of(const variable_list& tensors) {
  std::vector<torch::Device> devices{torch::kCPU};
  for (const auto& tensor : tensors) {
    const auto device = tensor.device();
    const bool is_new = std::find(devices.begin(), devices.end(), device) == devices.end();
    if (is_new && !device.is_cpu() && !device.is_meta()) devices.push_back(device);
  }
  return devices;
}

/// RNG and autocast state at the time of the forward pass.
class RngAutocastState {
 public:
  explicit RngAutocastState(const std::vector<torch::Device>& devices) : rng_(rng_state(devices)) {
    for (const auto& device : devices) {
      const auto type = device.type();
      if (at::autocast::is_autocast_available(type)) autocast_[type] = autocast_state(type);
    }
  }

  /// Restores the state of the forward pass for the lifetime of the guard.
  class Guard {
   public:
    explicit Guard(const RngAutocastState& state) : rng_(state.rng_) {
      for (const auto& [type, autocast] : state.autocast_) autocast_.emplace_back(type, autocast);
      // The cache of autocast may contain weights that were cast in the forward pass. The cast
      // weights are not part of the graph of the recomputation, so the cache is disabled.
      at::autocast::set_autocast_cache_enabled(false);
    }
    ~Guard() { at::autocast::set_autocast_cache_enabled(cache_enabled_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    RngGuard rng_;
    std::deque<AutocastGuard> autocast_;
    bool cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  };

 private:
  RngState rng_;
  std::map<torch::DeviceType, AutocastState> autocast_;
};

/// The checkpointed function, and the state that the backward pass needs to call it again.
struct Recomputation : torch::CustomClassHolder {
  Recomputation(Function function, const variable_list& arguments, const variable_list& inputs)
      : function(std::move(function)), state(devices_of(inputs)) {
    for (const auto& argument : arguments) is_defined.push_back(argument.defined());
  }

  /// Calls the function. `inputs`: the arguments that are defined tensors, then the parameters,
  /// which are not used here.
  variable_list call(at::TensorList inputs) const {
    const NoInferenceKernelsGuard guard;  // the same kernels with and without gradients
    variable_list arguments;
    std::size_t next = 0;
    for (const bool defined : is_defined) {
      arguments.push_back(defined ? inputs[next++] : torch::Tensor());
    }
    return function(arguments);
  }

  variable_list recompute(at::TensorList inputs) const {
    const torch::AutoGradMode with_gradients(true);
    const RngAutocastState::Guard as_in_forward(state);
    // AttentionRecorders are paused, so that they do not record the attention weights again. If a
    // recorder was active in the forward pass, `discarded` takes its place, so that attention uses
    // the same kernels as then: other kernels would draw other random numbers for dropout.
    const AttentionRecorderPause recorder_pause;
    std::optional<AttentionRecorder> discarded;
    if (was_recording) discarded.emplace();
    return call(inputs);
  }

  std::size_t num_defined() const {
    return static_cast<std::size_t>(std::count(is_defined.begin(), is_defined.end(), true));
  }

  Function function;
  std::vector<bool> is_defined;
  RngAutocastState state;
  bool was_recording = AttentionRecorder::is_recording();
};

/// The autograd function. `inputs`: the arguments that are defined tensors, then the parameters, so
/// that autograd tracks both.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Recomputation>& recomputation) {
    context->save_for_backward(inputs.vec());  // also detects in-place changes
    context->saved_data["recomputation"] = c10::IValue::make_capsule(recomputation);
    return recomputation->call(inputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !torch::GradMode::is_enabled(),
        "checkpoint does not support double backward (create_graph = true): "
        "call the function without checkpoint, or turn off gradient_checkpointing");
    auto inputs = context->get_saved_variables();
    const auto recomputation = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data["recomputation"].toCapsule());
    check_not_frozen(*context, inputs, recomputation->num_defined());
    for (std::size_t i = 0; i < recomputation->num_defined(); ++i) {
      // Arguments that require a gradient are detached, so that the backward pass through the
      // recomputed graph ends at them. The detached tensors require a gradient too, even if this
      // backward pass does not compute it, since the function may depend on requires_grad. The
      // other arguments are passed on unchanged: a SharedKey may contain them, and SharedKey
      // compares tensors by identity.
      if (inputs[i].requires_grad()) inputs[i] = inputs[i].detach().requires_grad_();
    }
    const auto all_outputs = recomputation->recompute(inputs);
    TORCH_CHECK(all_outputs.size() == output_gradients.size(),
                "the checkpointed function returned ", output_gradients.size(),
                " tensors in the forward pass, but ", all_outputs.size(),
                " in the backward pass: it must return the same number of tensors each time");
    variable_list outputs;
    variable_list outer_gradients;
    for (std::size_t i = 0; i < all_outputs.size(); ++i) {
      if (!all_outputs[i].requires_grad()) continue;
      outputs.push_back(all_outputs[i]);
      outer_gradients.push_back(output_gradients[i]);
    }

    variable_list gradients(inputs.size() + 1);  // the last one is for the argument `recomputation`
    if (outputs.empty()) return gradients;
    variable_list targets;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!context->needs_input_grad(i)) continue;
      targets.push_back(inputs[i]);
      indices.push_back(i);
    }
    const auto computed = torch::autograd::grad(outputs, targets, outer_gradients,
                                                /*retain_graph=*/false, /*create_graph=*/false,
                                                /*allow_unused=*/true);
    for (std::size_t i = 0; i < indices.size(); ++i) gradients[indices[i]] = computed[i];
    return gradients;
  }

  /// Without this check, torch::autograd::grad fails for a frozen parameter with a message that
  /// does not name the cause. `inputs` from `num_arguments` on are parameters, all of which
  /// required a gradient in the forward pass.
  static void check_not_frozen(AutogradContext& context, const variable_list& inputs,
                               std::size_t num_arguments) {
    for (std::size_t i = num_arguments; i < inputs.size(); ++i) {
      TORCH_CHECK(!context.needs_input_grad(i) || inputs[i].requires_grad(),
                  "checkpoint: a parameter of shape ", inputs[i].sizes(),
                  " had requires_grad = true in the forward pass, but has requires_grad = false in "
                  "the backward pass: freeze parameters before the forward pass or after the "
                  "backward pass");
    }
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

std::vector<torch::Tensor> checkpoint(const Function& function,
                                      const std::vector<torch::Tensor>& arguments,
                                      const std::vector<torch::Tensor>& parameters) {
  TORCH_CHECK_VALUE(function, "function must not be empty");
  TORCH_CHECK_VALUE(!arguments.empty(), "arguments must not be empty: pass at least one tensor");
  if (!torch::GradMode::is_enabled()) return function(arguments);
  variable_list inputs;
  std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(inputs),
               [](const auto& argument) { return argument.defined(); });
  for (const auto& parameter : trainable(parameters)) inputs.push_back(parameter);
  return Checkpoint::apply(at::TensorList(inputs),
                           c10::make_intrusive<Recomputation>(function, arguments, inputs));
}

torch::Tensor checkpoint(const std::function<torch::Tensor(const variable_list&)>& function,
                         const std::vector<torch::Tensor>& arguments,
                         const std::vector<torch::Tensor>& parameters) {
  TORCH_CHECK_VALUE(function, "function must not be empty");
  const Function list_function = [function](const variable_list& inputs) {
    return variable_list{function(inputs)};
  };
  return checkpoint(list_function, arguments, parameters).front();
}

torch::Tensor checkpoint(const std::function<torch::Tensor(const torch::Tensor&)>& function,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  TORCH_CHECK_VALUE(function, "function must not be empty");
  const Function list_function = [function](const variable_list& inputs) {
    return variable_list{function(inputs[0])};
  };
  return checkpoint(list_function, variable_list{x}, parameters).front();
}

}  // namespace attend
