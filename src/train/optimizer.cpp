#include "attend/train/optimizer.h"

#include "attend/input_error.h"
#include "attend/train/adamw.h"
#include "attend/train/muon.h"
#include "io/copy_state.h"
#include "resolved.h"

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <sstream>
#include <typeinfo>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

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
