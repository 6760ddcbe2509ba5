#include "train/processes.h"

#include "attend/input_error.h"
#include "attend/train/trainer.h"
#include "resolved.h"
#include "train/trainer_state_json.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/utils/tensor_flatten.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace attend::train {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, torch::Tensor>;

class SingleProcess : public Processes {
 public:
  int64_t rank() const override { return 0; }
  int64_t world_size() const override { return 1; }
  int64_t local_world_size() const override { return 1; }
  void all_reduce(torch::Tensor&) override {}
  void broadcast(torch::Tensor&, int64_t) override {}
  void backward(const torch::Tensor& loss, const std::vector<torch::Tensor>&, bool) override {
    loss.backward();
  }
  bool end_with_error(const std::string&) override { return true; }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

/// Returns the first line of `text` that `other` does not have; empty if there is none.
std::string first_new_line(const std::string& text, const std::string& other) {
  const auto known = lines_of(other);
  for (const auto& line : lines_of(text)) {
    if (std::ranges::find(known, line) == known.end()) return line;
  }
  return "";
}

/// Describes a difference of a value of this process from that of rank 0; empty if there is none.
std::string first_difference(const std::map<std::string, std::string>& values,
                             const std::map<std::string, std::string>& expected) {
  for (const auto& [name, value] : values) {
    const auto found = expected.find(name);
    const auto other = found == expected.end() ? "" : found->second;
    if (value != other) {
      return fmt::format("{} `{}`, and rank 0 has `{}`", name, first_new_line(value, other),
                         first_new_line(other, value));
    }
  }
  return "";
}

/// Returns the text of each process, by rank.
std::vector<std::string> all_gather_text(Processes& processes, const std::string& text) {
  const auto size = processes.world_size();
  auto lengths = torch::zeros({size}, torch::kLong);
  lengths[processes.rank()] = static_cast<int64_t>(text.size());
  processes.all_reduce(lengths);
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto length = lengths[rank].item<int64_t>();
    if (length == 0) continue;
    auto bytes = torch::zeros({length}, torch::kByte);
    auto* data = bytes.mutable_data_ptr<uint8_t>();
    if (rank == processes.rank()) std::copy(text.begin(), text.end(), data);
    processes.all_reduce(bytes);
    texts[static_cast<std::size_t>(rank)].assign(data, data + length);
  }
  return texts;
}

/// Replaces the values of a contiguous tensor of any dtype by those of the process `root`.
void broadcast_values(Processes& processes, const torch::Tensor& tensor, int64_t root) {
  if (tensor.numel() == 0) return;
  // As bytes, since not every transport supports every dtype.
  auto bytes = tensor.view({-1}).view(torch::kByte);
  processes.broadcast(bytes, root);
}

}  // namespace

std::shared_ptr<Processes> single_process() {
  return std::make_shared<SingleProcess>();
}

void check_processes(const std::shared_ptr<Processes>& processes, const TrainingConfig& config) {
  TORCH_CHECK_VALUE(processes != nullptr, "training requires processes, found null");
  if (config.batch_size < processes->world_size()) {
    throw InputError(
        fmt::format("`batch_size` is {}, expected at least {}, the number of processes",
                    config.batch_size, processes->world_size()));
  }
  if (processes->local_world_size() > 1 && config.device.starts_with("cuda:")) {
    throw InputError(fmt::format(
        "`device` is {} in several processes of a machine, expected cuda, another GPU in each",
        config.device));
  }
}

void check_equally_trained(Processes& processes, const std::vector<bool>& trained,
                           int64_t num_changed, int64_t step) {
  const auto size = processes.world_size();
  TORCH_CHECK_VALUE(num_changed == 0 || num_changed == size,
                    "parameters were frozen or unfrozen in ", num_changed, " of ", size,
                    " processes before step ", step, ", expected all of them");
  if (num_changed == 0) return;
  std::string text;
  for (const bool requires_grad : trained) text += requires_grad ? '1' : '0';
  check_equal(processes, {{"the trained parameters (1)", text}});
}

bool any_process(Processes& processes, bool value) {
  if (processes.world_size() == 1) return value;
  auto count = torch::tensor(value ? 1 : 0, torch::kLong);
  processes.all_reduce(count);
  return count.item<int64_t>() > 0;
}

void check_equal(Processes& processes, const std::map<std::string, std::string>& values) {
  if (processes.world_size() == 1) return;
  const auto expected = Json::parse(broadcast(processes, Json(values).dump()))
                            .get<std::map<std::string, std::string>>();
  const auto texts = all_gather_text(processes, first_difference(values, expected));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) {
      throw InputError(
          fmt::format("the processes differ: rank {} has {}; pass the same command, "
                      "recipe and data to all processes",
                      rank, texts[rank]));
    }
  }
}

void broadcast_values(Processes& processes, const std::vector<torch::Tensor>& tensors,
                      int64_t root) {
  // Few large messages take less time than one for each tensor.
  std::map<std::pair<torch::DeviceType, torch::ScalarType>, std::vector<torch::Tensor>> by_type;
  for (const auto& tensor : tensors)
    by_type[{tensor.device().type(), tensor.scalar_type()}].push_back(tensor);
  for (auto& item : by_type) {
    auto& group = item.second;
    const auto values = torch::utils::flatten_dense_tensors(group);
    broadcast_values(processes, values, root);
    if (root == processes.rank()) continue;
    auto next = group.begin();
    for (const auto& value : torch::utils::unflatten_dense_tensors(values, group))
      (next++)->copy_(value);
  }
}

void broadcast_buffers(Processes& processes, const torch::nn::Module& module) {
  if (processes.world_size() == 1) return;
  const torch::NoGradGuard no_grad;
  auto buffers = module.buffers();
  std::erase_if(buffers, [](const auto& buffer) { return !buffer.defined(); });
  broadcast_values(processes, buffers, 0);
}

std::string broadcast(Processes& processes, std::string text, int64_t root) {
  auto length = torch::tensor(static_cast<int64_t>(text.size()), torch::kLong);
  processes.broadcast(length, root);
  text.resize(static_cast<std::size_t>(length.item<int64_t>()));
  broadcast_values(processes, torch::from_blob(text.data(), {length.item<int64_t>()}, torch::kByte),
                   root);
  return text;
}

Tensors broadcast(Processes& processes, const Tensors& tensors, int64_t root) {
  Json layout = Json::array();
  for (const auto& [name, tensor] : tensors)
    layout.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  Tensors result;
  for (const auto& entry : Json::parse(broadcast(processes, layout.dump(), root))) {
    const auto name = entry[0].get<std::string>();
    const auto type = static_cast<torch::ScalarType>(entry[1].get<int>());
    const auto sizes = entry[2].get<std::vector<int64_t>>();
    auto tensor =
        processes.rank() == root ? contiguous_on_cpu(tensors.at(name)) : torch::empty(sizes, type);
    broadcast_values(processes, tensor, root);
    result.emplace(name, std::move(tensor));
  }
  return result;
}

TrainerState broadcast(Processes& processes, const TrainerState& state) {
  const auto text = broadcast(processes, to_json(state));
  return processes.rank() == 0 ? state : trainer_state_from_json(text);
}

void restore_from_rank_0(Processes& processes, Trainer& trainer) {
  if (processes.world_size() == 1) return;
  const auto start = processes.rank() == 0 ? trainer.checkpoint() : Checkpoint();
  auto state = broadcast(processes, start.trainer_state);
  auto weights = broadcast(processes, start.weights);
  trainer.restore(
      {std::move(state), std::move(weights), broadcast(processes, start.state), start.best});
}

void run_on_rank_0(Processes& processes, const std::function<void()>& work) {
  if (processes.world_size() == 1) return work();
  constexpr char kNothing = ' ', kInputError = 'i', kError = 'e';
  std::string outcome(1, kNothing);
  std::exception_ptr thrown;
  if (processes.rank() == 0) {
    try {
      work();
    } catch (const InputError& error) {
      outcome = kInputError + std::string(error.what());
      thrown = std::current_exception();
    } catch (const c10::Error& error) {
      const bool is_wrong_input = dynamic_cast<const c10::ValueError*>(&error) != nullptr;
      outcome =
          (is_wrong_input ? kInputError : kError) + std::string(error.what_without_backtrace());
      thrown = std::current_exception();
    } catch (const std::filesystem::filesystem_error& error) {
      outcome = fmt::format("{}{}: {}", kError, error.path1().string(), error.code().message());
      thrown = std::current_exception();
    } catch (const std::exception& error) {
      outcome = kError + std::string(error.what());
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
  if (outcome[0] == kError) throw std::runtime_error(outcome.substr(1));
}

}  // namespace attend::train
