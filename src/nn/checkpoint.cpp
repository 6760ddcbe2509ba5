#include "attend/nn/checkpoint.h"

#include "attend/ops/attention_recorder.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <mutex>
#include <unordered_set>
#include <utility>

namespace attend {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Function = std::function<torch::Tensor(const variable_list&)>;

/// What a function's result depends on besides its arguments: the random generators and autocast,
/// of the CPU and of one device.
class Surroundings {
 public:
  explicit Surroundings(torch::Device device) {
    add(torch::kCPU);
    if (device.is_cuda()) add(device);
  }

  void restore() const {
    for (const auto& saved : devices_) {
      auto generator = saved.generator;
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(saved.generator_state);
      at::autocast::set_autocast_enabled(saved.type, saved.autocast);
      at::autocast::set_autocast_dtype(saved.type, saved.autocast_dtype);
    }
  }

 private:
  struct PerDevice {
    torch::DeviceType type;
    at::Generator generator;
    torch::Tensor generator_state;
    bool autocast;
    torch::ScalarType autocast_dtype;
  };

  void add(torch::Device device) {
    auto generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    devices_.push_back({device.type(), generator, generator.get_state(),
                        at::autocast::is_autocast_enabled(device.type()),
                        at::autocast::get_autocast_dtype(device.type())});
  }

  std::vector<PerDevice> devices_;
};

/// Goes back to earlier surroundings until the end of the scope.
class SurroundingsScope {
 public:
  SurroundingsScope(const Surroundings& earlier, torch::Device device) : now_(device) {
    earlier.restore();
  }
  ~SurroundingsScope() { now_.restore(); }
  SurroundingsScope(const SurroundingsScope&) = delete;
  SurroundingsScope& operator=(const SurroundingsScope&) = delete;

 private:
  Surroundings now_;
};

/// Keeps autocast from storing copies of the parameters in another dtype, which it drops at the end
/// of the outermost autocast scope. In a backward pass outside of any, they would stay and be taken
/// for the parameters of the next step.
class NoAutocastCache {
 public:
  NoAutocastCache() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(enabled_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool enabled_ = at::autocast::is_autocast_cache_enabled();
};

/// What the backward pass needs to run the function again.
struct Recomputation : torch::CustomClassHolder {
  Recomputation(Function function, std::size_t num_arguments, torch::Device device)
      : function(std::move(function)), num_arguments(num_arguments), surroundings(device) {}

  torch::Tensor run(const variable_list& arguments) const {
    const torch::AutoGradMode with_gradients(true);
    const SurroundingsScope as_before(surroundings, arguments[0].device());
    const AttentionRecorderPause recorded_already;
    const NoAutocastCache no_cache;
    return function(arguments);
  }

  Function function;
  std::size_t num_arguments;
  Surroundings surroundings;
};

/// The inputs are the function's arguments, then the parameters, so that autograd knows of them and
/// torch::autograd::grad finds them.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static torch::Tensor forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Recomputation>& recomputation) {
    context->save_for_backward(inputs.vec());  // which also notices it when they are changed
    context->saved_data["recomputation"] = c10::IValue::make_capsule(recomputation);
    return recomputation->function(inputs.slice(0, recomputation->num_arguments).vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(!torch::GradMode::is_enabled(),
                                "checkpoint has no second derivative: call the function itself "
                                "where create_graph is true");
    auto inputs = context->get_saved_variables();
    const auto recomputation = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data["recomputation"].toCapsule());
    variable_list arguments;
    for (std::size_t i = 0; i < recomputation->num_arguments; ++i) {
      // Cut off, since a parameter may have had a part in computing it.
      inputs[i] = inputs[i].detach().requires_grad_(context->needs_input_grad(i));
      arguments.push_back(inputs[i]);
    }
    const auto output = recomputation->run(arguments);

    variable_list gradients(inputs.size() + 1);  // none for the recomputation
    if (!output.requires_grad()) return gradients;
    variable_list wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!context->needs_input_grad(i)) continue;
      wanted.push_back(inputs[i]);
      places.push_back(i);
    }
    const auto found = torch::autograd::grad({output}, wanted, output_gradients,
                                             /*retain_graph=*/false, /*create_graph=*/false,
                                             /*allow_unused=*/true);
    for (std::size_t i = 0; i < places.size(); ++i) gradients[places[i]] = found[i];
    return gradients;
  }
};

/// Those that want a gradient, each once.
variable_list trained(const std::vector<torch::Tensor>& parameters) {
  variable_list result;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& parameter : parameters) {
    TORCH_CHECK_VALUE(parameter.is_leaf(),
                      "checkpoint takes parameters that are leaves, found one of shape ",
                      parameter.sizes(), " that is computed from others");
    const bool is_new = seen.insert(parameter.unsafeGetTensorImpl()).second;
    if (is_new && parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

}  // namespace

torch::Tensor checkpoint(const Function& function, const std::vector<torch::Tensor>& arguments,
                         const std::vector<torch::Tensor>& parameters) {
  TORCH_CHECK_VALUE(!arguments.empty(), "arguments (0) must hold at least one tensor");
  if (!torch::GradMode::is_enabled()) return function(arguments);
  auto inputs = arguments;
  for (const auto& parameter : trained(parameters)) inputs.push_back(parameter);
  return Checkpoint::apply(
      at::TensorList(inputs),
      c10::make_intrusive<Recomputation>(function, arguments.size(), arguments[0].device()));
}

torch::Tensor checkpoint(const std::function<torch::Tensor(const torch::Tensor&)>& function,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters) {
  const auto of_list = [function](const variable_list& arguments) {
    return function(arguments[0]);
  };
  return checkpoint(Function(of_list), {x}, parameters);
}

}  // namespace attend
