#include "train/process_calls.h"

#include "attend/input_error.h"
#include "train/trainer_state_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace attend::train {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, torch::Tensor>;

class SingleProcess : public Processes {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  int64_t local_size() const override { return 1; }
  void sum(torch::Tensor&) override {}
  void broadcast(torch::Tensor&) override {}
  void sum_gradients_in_backward(const std::vector<torch::Tensor>&, const torch::Tensor&) override {
  }
};

/// Broadcasts the bytes of a contiguous tensor, since not every transport supports every dtype.
void broadcast_bytes(Processes& processes, const torch::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  auto bytes = tensor.view({-1}).view(torch::kByte);
  processes.broadcast(bytes);
}

}  // namespace

std::shared_ptr<Processes> single_process() {
  return std::make_shared<SingleProcess>();
}

void check_processes(const std::shared_ptr<Processes>& processes, const TrainingConfig& config) {
  TORCH_CHECK_VALUE(processes != nullptr, "training requires processes, found null");
  if (config.batch_size < processes->size()) {
    throw InputError(
        fmt::format("`batch_size` is {}, expected at least {}, the number of processes",
                    config.batch_size, processes->size()));
  }
}

bool any_process(Processes& processes, bool value) {
  if (processes.size() == 1) return value;
  auto count = torch::tensor(value ? 1 : 0, torch::kLong);
  processes.sum(count);
  return count.item<int64_t>() > 0;
}

std::string broadcast(Processes& processes, std::string text) {
  auto length = torch::tensor(static_cast<int64_t>(text.size()), torch::kLong);
  processes.broadcast(length);
  text.resize(static_cast<std::size_t>(length.item<int64_t>()));
  broadcast_bytes(processes, torch::from_blob(text.data(), {length.item<int64_t>()}, torch::kByte));
  return text;
}

Tensors broadcast(Processes& processes, const Tensors& tensors) {
  Json layout = Json::array();
  for (const auto& [name, tensor] : tensors)
    layout.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  Tensors result;
  for (const auto& entry : Json::parse(broadcast(processes, layout.dump()))) {
    const auto name = entry[0].get<std::string>();
    const auto type = static_cast<torch::ScalarType>(entry[1].get<int>());
    const auto sizes = entry[2].get<std::vector<int64_t>>();
    auto tensor =
        processes.rank() == 0 ? tensors.at(name).cpu().contiguous() : torch::empty(sizes, type);
    broadcast_bytes(processes, tensor);
    result.emplace(name, std::move(tensor));
  }
  return result;
}

TrainerState broadcast(Processes& processes, const TrainerState& state) {
  return trainer_state_from_json(broadcast(processes, to_json(state)));
}

Checkpoint broadcast(Processes& processes, const Checkpoint& checkpoint) {
  auto state = broadcast(processes, checkpoint.trainer_state);
  auto weights = broadcast(processes, checkpoint.weights);
  auto rest = broadcast(processes, checkpoint.state);
  return {std::move(state), std::move(weights), std::move(rest),
          broadcast(processes, checkpoint.best)};
}

void in_rank_0(Processes& processes, const std::function<void()>& work) {
  if (processes.size() == 1) return work();
  constexpr char kNothing = ' ', kInputError = 'i', kError = 'e';
  std::string outcome(1, kNothing);
  std::exception_ptr thrown;
  if (processes.rank() == 0) {
    try {
      work();
    } catch (const InputError& error) {
      outcome = kInputError + std::string(error.what());
      thrown = std::current_exception();
    } catch (const std::exception& error) {
      outcome = kError + std::string(error.what());
      thrown = std::current_exception();
    } catch (...) {  // such as an exception that ends the program after a signal
      outcome = kError + std::string("was interrupted");
      thrown = std::current_exception();
    }
  }
  try {
    outcome = broadcast(processes, outcome);
  } catch (const std::exception&) {  // another process is gone
    if (!thrown) throw;
  }
  if (thrown) std::rethrow_exception(thrown);
  if (outcome[0] == kInputError) throw InputError(outcome.substr(1));
  if (outcome[0] == kError) throw std::runtime_error("rank 0: " + outcome.substr(1));
}

}  // namespace attend::train
