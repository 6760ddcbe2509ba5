#include "attend/train/optimizer.h"

#include "attend/input_error.h"
#include "io/copy_state.h"
#include "ops/cpu_features.h"
#include "ops/in_parallel.h"
#include "resolved.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>
#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <typeinfo>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

constexpr double kEpsilon = 1e-8;

std::map<std::string, torch::Tensor> initial_adamw_state(const torch::Tensor& parameter) {
  return {
      {"exp_avg", torch::zeros_like(parameter)},
      {"exp_avg_sq", torch::zeros_like(parameter)},
      // the fused kernel requires a float tensor on the parameter's device
      {"step", torch::zeros({}, torch::TensorOptions(torch::kFloat).device(parameter.device()))}};
}

// An iteration of `newton_schulz` maps each singular value s to
// kLinear * s + kCubic * s^3 + kQuintic * s^5. Jordan et al. chose these coefficients for fast
// growth of small singular values, not for convergence to exactly 1.
constexpr double kLinear = 3.4445;
constexpr double kCubic = -4.7750;
constexpr double kQuintic = 2.0315;
constexpr int kIterations = 5;
constexpr double kMinNorm = 1e-7;  // avoids division by zero
constexpr double kAdamWRms = 0.2;  // typical root mean square of AdamW's updates, divided by lr
/// Matrices of one shape with at most this number of elements are orthogonalized together, because
/// calls take longer than their products.
constexpr int64_t kSmall = 64 * 1024;

/// Returns the dtype in which the matrix products of `newton_schulz` for `x` are computed.
torch::Dtype product_dtype(const torch::Tensor& x) {
  // On a CPU without AVX-512, LibTorch computes products of bfloat16 in a plain loop on one thread,
  // which is up to 90 times slower than float32. Only for tiny matrices, the casts take longer.
  constexpr int64_t kTiny = 16 * 16 * 16;
  const bool is_tiny = x.size(-2) * x.size(-2) * x.size(-1) <= kTiny;
  return x.is_cpu() && !is_tiny && !has_avx512() ? torch::kFloat : torch::kBFloat16;
}

using State = std::map<std::string, torch::Tensor>;

/// Options of the parameter group of an `Optimizer`.
class LrOptions : public torch::optim::OptimizerCloneableOptions<LrOptions> {
 public:
  explicit LrOptions(double lr = 1e-3) : lr_(lr) {}
  double get_lr() const override { return lr_; }
  void set_lr(double lr) override { lr_ = lr; }

 private:
  double lr_;
};

std::vector<torch::Tensor> tensors_of(const std::vector<TrainableParameter>& parameters) {
  std::vector<torch::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

/// Muon for the hidden matrices, AdamW for the rest.
class MuonWithAdamW : public Optimizer {
 public:
  /// The first `num_matrices` parameters are the hidden matrices.
  MuonWithAdamW(const std::vector<TrainableParameter>& parameters, std::ptrdiff_t num_matrices,
                const TrainingConfig& config)
      : Optimizer(parameters, config.lr),
        muon_({parameters.begin(), parameters.begin() + num_matrices}, config),
        adamw_({parameters.begin() + num_matrices, parameters.end()}, config) {}

 protected:
  void update(double lr) override {
    for (Optimizer* optimizer :
         {static_cast<Optimizer*>(&muon_), static_cast<Optimizer*>(&adamw_)}) {
      set_lr(*optimizer, lr);
      optimizer->step();
    }
  }
  std::vector<Slot*> slots() const override {
    auto all = slots_of(muon_);
    const auto rest = slots_of(adamw_);
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

 private:
  Muon muon_;
  AdamW adamw_;
};

std::unique_ptr<Optimizer> make_muon(std::vector<TrainableParameter> parameters,
                                     const TrainingConfig& config) {
  const auto rest = std::stable_partition(
      parameters.begin(), parameters.end(),
      [](const auto& parameter) { return parameter.role == ParameterRole::hidden_matrix; });
  return std::make_unique<MuonWithAdamW>(parameters, rest - parameters.begin(), config);
}

}  // namespace

bool Optimizer::Slot::is_in(const State& all) const {
  const auto found = all.lower_bound(full_name(""));
  return found != all.end() && found->first.starts_with(full_name(""));
}

State& Optimizer::Slot::ensure_state() {
  if (state.empty()) state = initial_state(parameter);
  return state;
}

Optimizer::Optimizer(const std::vector<TrainableParameter>& parameters, double lr)
    : torch::optim::Optimizer(tensors_of(parameters), std::make_unique<LrOptions>(lr)) {}

Optimizer::Optimizer(const torch::optim::OptimizerParamGroup& group)
    : torch::optim::Optimizer({group}, group.options().clone()) {}

torch::Tensor Optimizer::step(LossClosure closure) {
  TORCH_CHECK_VALUE(param_groups().size() == 1, "found ", param_groups().size(),
                    " parameter groups, expected one: pass all parameters to the constructor of "
                    "the optimizer instead of calling add_param_group");
  torch::Tensor loss;
  if (closure) {
    const torch::AutoGradMode enable_grad(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  update(param_groups().front().options().get_lr());
  return loss;
}

std::vector<Optimizer::Slot*> Optimizer::slots() const {
  std::vector<Slot*> all;
  for (auto& slot : slots_) all.push_back(&slot);
  return all;
}

State Optimizer::named_state() const {
  State all;
  for (auto* slot : slots()) {
    if (slot->parameter.requires_grad()) slot->ensure_state();
    for (const auto& [key, tensor] : slot->state) all.emplace(slot->full_name(key), tensor);
  }
  return all;
}

void Optimizer::load_named_state(const State& state) {
  State destination;
  std::vector<State> loaded;
  for (auto* slot : slots()) {
    const bool is_needed = slot->parameter.requires_grad() || slot->is_in(state);
    auto& own = loaded.emplace_back();
    if (is_needed) own = slot->state.empty() ? slot->initial_state(slot->parameter) : slot->state;
    for (const auto& [key, tensor] : own) destination.emplace(slot->full_name(key), tensor);
  }
  copy_state(destination, state, "optimizer state");
  auto next = loaded.begin();
  for (auto* slot : slots()) slot->state = std::move(*next++);
}

void Optimizer::save(torch::serialize::OutputArchive& archive) const {
  // The names contain dots, which names in an archive must not contain.
  c10::List<std::string> names;
  c10::List<torch::Tensor> tensors;
  for (const auto& [name, tensor] : named_state()) {
    names.push_back(name);
    tensors.push_back(tensor);
  }
  archive.write("lr", param_groups().front().options().get_lr());
  archive.write("names", names);
  archive.write("tensors", tensors);
}

void Optimizer::load(torch::serialize::InputArchive& archive) {
  c10::IValue lr, names, tensors;
  archive.read("lr", lr);
  archive.read("names", names);
  archive.read("tensors", tensors);
  State state;
  const auto list = tensors.toTensorVector();
  for (std::size_t i = 0; i < list.size(); ++i)
    state.emplace(names.toListRef().at(i).toStringRef(), list[i]);
  load_named_state(state);
  set_lr(*this, lr.toDouble());
}

AdamW::AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config)
    : Optimizer(parameters, config.lr),
      weight_decay_(config.weight_decay),
      beta1_(config.beta1),
      beta2_(config.beta2) {
  for (const auto& [name, parameter, role] : parameters)
    slots_.push_back({name, parameter, role, initial_adamw_state});
}

void AdamW::update(double lr) {
  for (const bool decay : {true, false}) update(decay, lr);
}

void AdamW::update(bool decay, double lr) {
  std::vector<torch::Tensor> parameters, gradients, averages, squares, steps;
  for (auto& slot : slots_) {
    if (!slot.has_grad() || (slot.role != ParameterRole::no_decay) != decay) continue;
    auto& state = slot.ensure_state();
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    averages.push_back(state.at("exp_avg"));
    squares.push_back(state.at("exp_avg_sq"));
    steps.push_back(state.at("step"));
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/{}, steps, lr,
                    beta1_, beta2_, decay ? weight_decay_ : 0.0, kEpsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

torch::Tensor newton_schulz(const torch::Tensor& matrices) {
  const bool is_tall = matrices.size(-2) > matrices.size(-1);
  auto x = matrices.to(torch::kBFloat16);
  if (is_tall) x = x.mT();  // x x^T then has fewer elements than x^T x
  x = x / x.norm(2, {-2, -1}, /*keepdim=*/true).clamp_min(kMinNorm);
  const auto dtype = product_dtype(x);
  // Also products in float32 are rounded to bfloat16.
  const auto rounded = [&](const torch::Tensor& y) { return y.to(torch::kBFloat16).to(dtype); };
  x = x.to(dtype);
  // factor * y + product_factor * a b
  const auto add_product = [](const torch::Tensor& y, double factor, const torch::Tensor& a,
                              const torch::Tensor& b, double product_factor) {
    return y.dim() == 2 ? torch::addmm(y, a, b, factor, product_factor)
                        : torch::baddbmm(y, a, b, factor, product_factor);
  };
  for (int i = 0; i < kIterations; ++i) {
    const auto gram = rounded(x.matmul(x.mT()));
    const auto polynomial = rounded(add_product(gram, kCubic, gram, gram, kQuintic));
    x = rounded(add_product(x, kLinear, polynomial, x, 1.0));
  }
  return (is_tall ? x.mT() : x).to(torch::kBFloat16);
}

Muon::Muon(const std::vector<TrainableParameter>& matrices, const TrainingConfig& config)
    : Optimizer(matrices, config.lr),
      momentum_(config.momentum),
      weight_decay_(config.weight_decay) {
  for (const auto& [name, parameter, role] : matrices) {
    TORCH_CHECK_VALUE(parameter.dim() == 2, "Muon: expected matrices, found ", name, " ",
                      parameter.sizes());
    slots_.push_back({name, parameter, role, [](const torch::Tensor& matrix) {
                        return std::map<std::string, torch::Tensor>{
                            {"momentum_buffer", torch::zeros_like(matrix)}};
                      }});
  }
}

void Muon::update(double lr) {
  std::map<std::vector<int64_t>, std::vector<Slot*>> small;  // by shape
  std::vector<Slot*> large;                                  // on a CPU
  // Also those that other processes of a `ShardedOptimizer` update, so that all choose alike.
  int64_t num_large = 0;
  for (auto& matrix : slots_) {
    const auto& parameter = matrix.parameter;
    const bool is_small = parameter.numel() <= kSmall;
    if (!is_small && parameter.is_cpu() && parameter.requires_grad()) ++num_large;
    if (!matrix.has_grad()) continue;
    if (is_small) {
      small[parameter.sizes().vec()].push_back(&matrix);
    } else if (parameter.is_cpu()) {
      large.push_back(&matrix);
    } else {
      update({&matrix}, lr);
    }
  }
  for (const auto& [shape, matrices] : small) update(matrices, lr);
  if (num_large < at::get_num_threads()) {
    for (auto* matrix : large) update({matrix}, lr);
    return;
  }
  // A thread per matrix is faster than all threads in each product. The longest updates come first.
  std::ranges::stable_sort(large, std::greater(),
                           [](const Slot* matrix) { return matrix->parameter.numel(); });
  const at::ThreadLocalState state;  // such as GradMode
  std::atomic<std::size_t> next = 0;
  in_parallel(at::get_num_threads(), /*grain=*/1, [&](int64_t /*begin*/, int64_t /*end*/) {
    const at::ThreadLocalStateGuard guard(state);
    for (auto i = next++; i < large.size(); i = next++) update({large[i]}, lr);
  });
}

void Muon::update(const std::vector<Slot*>& matrices, double lr) const {
  std::vector<torch::Tensor> directions;  // Nesterov momentum
  for (auto* matrix : matrices) {
    auto& momentum = matrix->ensure_state().at("momentum_buffer");
    const auto& gradient = matrix->parameter.grad();
    momentum.lerp_(gradient, 1.0 - momentum_);
    directions.push_back(gradient.lerp(momentum, momentum_).to(torch::kBFloat16));
  }
  const auto updates = directions.size() == 1 ? newton_schulz(directions.front()).unsqueeze(0)
                                              : newton_schulz(torch::stack(directions));
  const auto max_side = static_cast<double>(std::max(updates.size(-2), updates.size(-1)));
  const double scale = lr * (kAdamWRms * std::sqrt(max_side));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    auto& parameter = matrices[i]->parameter;
    parameter.mul_(1.0 - lr * weight_decay_);
    parameter.add_(updates[static_cast<int64_t>(i)], -scale);
  }
}

void set_lr(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

std::string optimizer_name(const torch::optim::Optimizer& optimizer) {
  const auto& type = typeid(optimizer);
  if (type == typeid(AdamW)) return std::string(to_string(OptimizerKind::adamw));
  if (type == typeid(MuonWithAdamW)) return std::string(to_string(OptimizerKind::muon));
  return c10::demangle(type.name());
}

State state_of(const torch::optim::Optimizer& optimizer) {
  if (const auto* own = dynamic_cast<const Optimizer*>(&optimizer)) return own->named_state();
  std::ostringstream out;
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.save_to(out);
  const auto bytes = out.str();
  return {
      {optimizer_name(optimizer), torch::tensor(std::vector<uint8_t>(bytes.begin(), bytes.end()))}};
}

void load_state_of(torch::optim::Optimizer& optimizer, const State& state) {
  if (auto* own = dynamic_cast<Optimizer*>(&optimizer)) return own->load_named_state(state);
  const auto name = optimizer_name(optimizer);
  const auto found = state.find(name);
  if (found == state.end() || found->second.scalar_type() != torch::kByte) {
    throw InputError(fmt::format(
        "the checkpoint has {} tensors of optimizer state{}, expected the tensor '{}' of type "
        "uint8: it was saved with another optimizer",
        state.size(), state.empty() ? "" : fmt::format(", such as '{}'", state.begin()->first),
        name));
  }
  const auto bytes = contiguous_on_cpu(found->second);
  torch::serialize::InputArchive archive;
  archive.load_from(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                    static_cast<std::size_t>(bytes.numel()));
  optimizer.state().clear();  // `load` keeps the state of parameters that the archive lacks
  optimizer.load(archive);
}

std::unique_ptr<Optimizer> make_optimizer(ConstModuleRef module, const TrainingConfig& config) {
  auto parameters = trainable_parameters(module, /*include_frozen=*/true);
  switch (config.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, config);
    case OptimizerKind::muon:
      return make_muon(std::move(parameters), config);
  }
  C10_THROW_ERROR(ValueError, c10::str("unknown optimizer ", static_cast<int>(config.optimizer)));
}

}  // namespace attend::train
