#include "attend/train/optimizer.h"

#include "attend/nn/trainable_parameters.h"
#include "attend/train/adamw.h"
#include "attend/train/muon.h"
#include "io/copy_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

using State = std::map<std::string, torch::Tensor>;

/// Several optimizers as one; no two of them have a parameter in common.
class OptimizerGroup : public Optimizer {
 public:
  explicit OptimizerGroup(std::vector<std::unique_ptr<Optimizer>> members)
      : members_(std::move(members)) {}

  void step(double learning_rate) override {
    for (auto& member : members_) member->step(learning_rate);
  }
  void zero_grad() override {
    for (auto& member : members_) member->zero_grad();
  }
  State state() const override {
    State all;
    for (const auto& member : members_) all.merge(member->state());
    return all;
  }

 private:
  std::vector<std::unique_ptr<Optimizer>> members_;
};

std::unique_ptr<Optimizer> make_muon(std::vector<TrainableParameter> parameters,
                                     const TrainingConfig& config) {
  const auto rest = std::stable_partition(
      parameters.begin(), parameters.end(),
      [](const auto& parameter) { return parameter.role == ParameterRole::hidden_matrix; });
  std::vector<std::unique_ptr<Optimizer>> members;
  members.push_back(std::make_unique<Muon>(std::vector(parameters.begin(), rest), config));
  members.push_back(std::make_unique<AdamW>(std::vector(rest, parameters.end()), config));
  return std::make_unique<OptimizerGroup>(std::move(members));
}

}  // namespace

void Optimizer::load_state(const State& state) {
  copy_state(this->state(), state, "optimizer state");
}

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& module,
                                          const TrainingConfig& config) {
  auto parameters = trainable_parameters(module);
  switch (config.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, config);
    case OptimizerKind::muon:
      return make_muon(std::move(parameters), config);
  }
  TORCH_CHECK_VALUE(false, "unknown optimizer ", static_cast<int>(config.optimizer));
}

}  // namespace attend::train
