// Runs attend for scripts/bench, which compares attend with other libraries (the peers):
//
//     bench_contender FOLDER [CHANGES]
//
// FOLDER/row.json describes what is measured; CHANGES is a JSON object whose values replace those
// of row.json. The program prints one line of JSON with values that
// the peers must also get, and with the floating point operations of a unit of work. Then it reads
// numbers from standard input, one per line. For each number N, it runs N units of work and prints
// the seconds that they took. If the kind in row.json is "limits" or "link", the program prints
// only the speeds of the machine; see `print_limits` and `print_link`.
//
// For training and "link", a launcher may have started several processes, which share the threads
// in row.json. Only rank 0 prints, writes files and reads standard input.
#include "attend/distributed/init.h"
#include "attend/export/onnx.h"
#include "attend/io/safetensors.h"
#include "attend/model_export/export_plan.h"
#include "attend/models/generation.h"
#include "attend/models/prepare_for_inference.h"
#include "attend/nn/freezing.h"
#include "attend/nn/lora.h"
#include "attend/nn/trainable_parameters.h"
#include "attend/train/optimizer.h"
#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"
#include "attend/train/training_run.h"
#include "bench/machine_limits.h"
#include "bench/rows.h"
#include "serve.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/script.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <utility>

namespace attend {
namespace {

using Row = app::BenchRow;

void save_tensors(const std::filesystem::path& path, std::map<std::string, torch::Tensor> tensors) {
  save_safetensors(path, {.tensors = std::move(tensors), .metadata = {}});
}

/// A task that records its first `count` training batches. The peers repeat the first 3 training
/// steps with these batches. With `repeats`, all later batches are the first one.
struct RecordBatches : train::Task {
  RecordBatches(std::shared_ptr<const train::Task> recorded, int64_t count, bool repeats)
      : task(std::move(recorded)), count(count), repeats(repeats) {}
  const Tokenizer& tokenizer() const override { return task->tokenizer(); }
  train::Batch training_batch(int64_t size, train::Sampler& sampler) const override {
    if (repeats && std::ssize(batches) == count) return batches.front();
    auto batch = task->training_batch(size, sampler);
    if (std::ssize(batches) < count) batches.push_back(batch);
    return batch;
  }
  std::vector<train::Batch> validation_batches(int64_t size) const override {
    return task->validation_batches(size);
  }

  std::shared_ptr<const train::Task> task;
  int64_t count;
  bool repeats;
  mutable std::vector<train::Batch> batches;
};

/// Measures the time that other processes cost this one: of calls that communicate and, of a
/// backward pass, the time after the last gradient. This time also contains the wait for processes
/// that compute longer.
class MeasuredProcesses : public train::Processes {
 public:
  MeasuredProcesses(std::shared_ptr<train::Processes> measured,
                    const std::vector<TrainableParameter>& parameters)
      : processes_(std::move(measured)) {
    for (const auto& parameter : parameters) {
      parameter.tensor.register_hook(
          [this](const torch::Tensor&) { last_gradient_ = Clock::now(); });
    }
  }

  int64_t rank() const override { return processes_->rank(); }
  int64_t world_size() const override { return processes_->world_size(); }
  int64_t local_world_size() const override { return processes_->local_world_size(); }
  void all_reduce(torch::Tensor& tensor) override {
    const auto start = Clock::now();
    processes_->all_reduce(tensor);
    seconds_ += seconds_since(start);
  }
  void broadcast(torch::Tensor& tensor, int64_t root) override {
    const auto start = Clock::now();
    processes_->broadcast(tensor, root);
    seconds_ += seconds_since(start);
  }
  void backward(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                bool all_reduce) override {
    processes_->backward(loss, parameters, all_reduce);
    seconds_ += seconds_since(last_gradient_);
  }
  bool end_with_error(const std::string& message) override {
    return processes_->end_with_error(message);
  }

  /// Returns the seconds since the last call.
  double take_seconds() { return std::exchange(seconds_, 0.0); }

 private:
  std::shared_ptr<train::Processes> processes_;
  Clock::time_point last_gradient_;
  double seconds_ = 0.0;
};

/// Reports the loss of every step.
struct RecordLosses : train::Observer {
  void on_progress(const train::Progress& progress) override {
    losses.push_back(progress.train_loss);
  }
  std::vector<double> losses;
};

/// Returns the batches of the first 3 steps: each is drawn in as many parts as there are processes.
std::vector<train::Batch> whole_batches(const std::vector<train::Batch>& parts, int64_t processes) {
  std::vector<train::Batch> batches;
  for (auto part = parts.begin(); part != parts.end(); part += processes) {
    std::vector<torch::Tensor> tokens, targets;
    for (auto each = part; each != part + processes; ++each) {
      tokens.push_back(each->tokens);
      targets.push_back(each->targets);
    }
    batches.push_back({.tokens = torch::cat(tokens), .targets = torch::cat(targets)});
  }
  return batches;
}

/// Freezes the model, and adds an adapter to each linear layer of its blocks. A joint projection
/// gets one adapter, as in PEFT.
void add_adapters(Model& model, int64_t rank) {
  freeze(module_of(model));
  for (const auto& module : module_of(model).modules()) {
    auto* layer = module->as<torch::nn::Linear>();
    if (layer != nullptr) add_lora_adapter(*layer, "lora", {.rank = rank});
  }
}

/// The unit of work is a step of the trainer. The peers must get the same losses in the first 3
/// steps. The trainer writes no files, unless `run_directory` is true: then it logs and saves
/// checkpoints as `attend train` does. With `new_batches` false, it always trains on the same
/// batch. Also prints the bytes of the gradients and, for each number N, the seconds of
/// `MeasuredProcesses`.
void train_model(const Row& row, const std::filesystem::path& folder,
                 const std::shared_ptr<train::Processes>& connected) {
  auto recipe = app::training_recipe(row, folder / "text.txt");
  recipe.training.log_every = 1;
  const auto setup = train::make_training_setup(recipe);
  auto model = setup.model;
  if (row.contains("lora")) add_adapters(model, row["lora"]);
  const auto parameters = trainable_parameters(module_of(model));
  const auto processes = std::make_shared<MeasuredProcesses>(connected, parameters);
  const bool is_first = processes->rank() == 0;
  const auto weights = state_dict(module_of(model));
  if (is_first) save_tensors(folder / "model.safetensors", weights);
  const auto task = std::make_shared<RecordBatches>(setup.task, 3 * processes->world_size(),
                                                    !row.value("new_batches", true));
  const auto objective = std::make_shared<train::TaskObjective>(model, task, recipe.training);
  RecordLosses losses;
  {
    train::Trainer first_steps(objective, recipe.training, {}, nullptr, processes);
    first_steps.run(
        {.observers = {&losses}, .stop_requested = [&] { return losses.losses.size() == 3; }});
  }
  const auto batches = whole_batches(task->batches, processes->world_size());
  recipe.training.log_every = 10;
  train::Trainer trainer(objective, recipe.training, {}, nullptr, processes);
  if (!is_first) {
    trainer.run();
    return;
  }

  const auto on_device = [&](const torch::Tensor& tensor) { return tensor.to(setup.device); };
  const auto flops = app::flops_of_step(model, train::map_batch(batches.front(), on_device));
  std::map<std::string, torch::Tensor> tensors;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    tensors[fmt::format("tokens.{}", i)] = batches[i].tokens;
    tensors[fmt::format("targets.{}", i)] = batches[i].targets;
  }
  save_tensors(folder / "batches.safetensors", tensors);
  int64_t gradient_bytes = 0;
  for (const auto& parameter : parameters)
    gradient_bytes += static_cast<int64_t>(parameter.tensor.nbytes());

  std::cout << Row{{"losses", losses.losses}, {"flops", flops}, {"gradient_bytes", gradient_bytes}}
            << std::endl;
  int64_t left = 0;
  if (!(std::cin >> left)) return;
  processes->take_seconds();
  auto start = Clock::now();
  const train::TrainerHooks hooks{.stop_requested = [&] {
    if (--left > 0) return false;
    std::cout << seconds_since(start) << " " << processes->take_seconds() << std::endl;
    const bool more = static_cast<bool>(std::cin >> left);
    start = Clock::now();
    return !more;
  }};
  if (row.value("run_directory", false)) {
    train::TrainingRun(folder / "run", objective, recipe.training).train(hooks);
  } else {
    trainer.run(hooks);
  }
}

std::vector<float> first_values(const torch::Tensor& tensor) {
  const auto values = tensor.detach().flatten().slice(0, 0, 1000).contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

/// Returns random matrices with the shapes of `layers` transformer blocks of this width, by name.
std::map<std::string, torch::Tensor> random_matrices(int64_t layers, int64_t width) {
  std::map<std::string, torch::Tensor> matrices;
  for (int64_t i = 0; i < layers; ++i) {
    matrices[fmt::format("{}.qkv", i)] = torch::randn({3 * width, width});
    matrices[fmt::format("{}.out", i)] = torch::randn({width, width});
    matrices[fmt::format("{}.up", i)] = torch::randn({4 * width, width});
    matrices[fmt::format("{}.down", i)] = torch::randn({width, 4 * width});
  }
  return matrices;
}

/// The unit of work is a step of an optimizer, without a model. The peers must change the first
/// 1,000 weights by the same values in the first 3 steps.
void optimize(const Row& row, const std::filesystem::path& folder) {
  torch::manual_seed(1);
  const bool is_muon = row.at("optimizer") == "muon";
  const auto weights = random_matrices(row.at("layers"), row.at("width"));
  const auto gradients = random_matrices(row.at("layers"), row.at("width"));
  save_tensors(folder / "model.safetensors", weights);
  save_tensors(folder / "gradients.safetensors", gradients);
  std::vector<TrainableParameter> parameters;
  int64_t bytes = 0;
  for (const auto& [name, weight] : weights) {
    auto parameter = weight.clone().requires_grad_();
    parameter.mutable_grad() = gradients.at(name);
    parameters.push_back({name, parameter, ParameterRole::hidden_matrix});
    bytes += static_cast<int64_t>(weight.nbytes());
  }
  const train::TrainingConfig config{.lr = row.at("lr")};
  std::unique_ptr<train::Optimizer> optimizer;
  if (is_muon) {
    optimizer = std::make_unique<train::Muon>(parameters, config);
  } else {
    optimizer = std::make_unique<train::AdamW>(parameters, config);
  }
  for (int i = 0; i < 3; ++i) optimizer->step();
  const auto& [name, parameter, role] = parameters.front();
  Row values{{"changes", first_values(parameter - weights.at(name))}};
  // AdamW reads weight, gradient and both moments, and writes all but the gradient.
  if (!is_muon) values["moved_bytes"] = 7 * bytes;
  const auto counted_step = [&] {
    const int threads = torch::get_num_threads();
    torch::set_num_threads(1);  // the products of other threads are not counted
    optimizer->step();
    torch::set_num_threads(threads);
    return values;
  };
  serve(counted_step, [&] { optimizer->step(); });
}

/// The unit of work is a forward pass. The peers must get the same first 1,000 elements of the
/// output.
void encode(const Row& row, const std::filesystem::path& folder) {
  const int64_t width = row.at("width");
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  TransformerEncoder encoder(
      TransformerEncoderOptions(TransformerBlockOptions(width, row.at("heads")), row.at("layers")));
  encoder->eval();
  prepare_for_inference(encoder);
  const auto x = torch::randn({row.at("batch"), row.at("tokens"), width});
  save_tensors(folder / "model.safetensors", state_dict(encoder));
  save_tensors(folder / "inputs.safetensors", {{"x", x}});
  export_onnx(encoder, x, folder / "model.onnx", {.input_names = {"x"}});
  serve([&] { return Row{{"outputs", first_values(encoder(x))}}; }, [&] { encoder(x); });
}

/// Returns the first 1,000 logits after a prompt, of which each step reads `tokens_per_step`
/// tokens.
std::vector<float> first_logits(LanguageModel& model, const std::vector<int64_t>& prompt,
                                int64_t tokens_per_step) {
  auto cache = model->make_cache(1);
  torch::Tensor logits;
  for (const auto& tokens : torch::tensor(prompt).unsqueeze(0).split(tokens_per_step, 1))
    logits = model->step(tokens, cache, /*key_mask=*/{}, /*logits_to_keep=*/1);
  return first_values(logits);
}

std::vector<std::vector<int64_t>> tokens_of(const std::vector<GeneratedSequence>& sequences) {
  std::vector<std::vector<int64_t>> tokens;
  for (const auto& sequence : sequences) tokens.push_back(sequence.tokens);
  return tokens;
}

/// The unit of work is greedy decoding, which appends tokens to the prompts. The peers must get the
/// same tokens or nearly the same logits after the first prompt. If the row has a format of the
/// weights, only the logits are compared.
void decode(const Row& row, const std::filesystem::path& folder) {
  LanguageModel model(app::decoded_config(row));
  load_state_dict(model, load_safetensors(folder / "model.safetensors").tensors);
  model->eval();
  prepare_for_inference(model, app::weight_format(row));
  const std::vector<std::vector<int64_t>> prompts = row.at("prompts");
  const torch::NoGradGuard no_grad;
  const auto options = app::greedy(row);
  const bool compares_tokens = !row.contains("weights");
  // Some formats have a kernel for a single row, which the comparison must reach.
  const auto logits =
      first_logits(model, prompts.front(), compares_tokens ? std::ssize(prompts.front()) : 1);
  const auto first = [&] {
    Row values{{"outputs", logits}};
    if (prompts.size() == 1 && options.max_new_tokens > 1)
      values["moved_bytes"] = app::decoded_bytes(model, row);
    auto tokens = tokens_of(generate_batch(model, prompts, options));
    if (compares_tokens) values["tokens"] = std::move(tokens);
    return values;
  };
  serve(first, [&] { generate_batch(model, prompts, options); });
}

/// The unit of work is a forward pass over the prompts or, if the row has new tokens, greedy
/// decoding. Both are done by the TorchScript file that attend exports or, if `exported` is false,
/// by the model itself, with the same weights. These sides must get the same tokens, or the same
/// first 1,000 logits.
void run_exported(const Row& row, const std::filesystem::path& folder) {
  torch::manual_seed(1);
  LanguageModel model(app::decoded_config(row));
  model->eval();
  const torch::NoGradGuard no_grad;
  const std::vector<std::vector<int64_t>> prompts = row.at("prompts");
  std::vector<torch::Tensor> rows;
  for (const auto& prompt : prompts) rows.push_back(torch::tensor(prompt));
  const auto tokens = torch::stack(rows);
  const bool generates = row.at("new_tokens") > 0;

  std::function<torch::Tensor()> unit;
  if (row.value("exported", true)) {
    export_torchscript(plan_export(model), folder / "model.pt");
    const auto program =
        std::make_shared<torch::jit::Module>(torch::jit::load((folder / "model.pt").string()));
    unit = [=] {
      if (!generates) return program->forward({tokens}).toTensor();
      return program->run_method("generate", tokens, row.at("new_tokens").get<int64_t>(), 0.0)
          .toTensor();
    };
  } else {
    unit = [=]() mutable {
      if (!generates) return model(tokens);
      std::vector<torch::Tensor> generated;
      for (const auto& each : tokens_of(generate_batch(model, prompts, app::greedy(row))))
        generated.push_back(torch::tensor(each));
      return torch::stack(generated);
    };
  }
  const auto first = [&] {
    const auto found = unit();
    if (!generates) return Row{{"outputs", first_values(found)}};
    std::vector<std::vector<int64_t>> all;
    for (const auto& each : found.unbind())
      all.emplace_back(each.data_ptr<int64_t>(), each.data_ptr<int64_t>() + each.numel());
    return Row{{"tokens", all}};
  };
  serve(first, unit);
}

void print_limits(torch::Device device) {
  const auto limits = app::measure_limits(device);
  std::cout << Row{{"fp32_flops", limits.fp32_flops},
                   {"bf16_flops", limits.bf16_flops},
                   {"read_bytes", limits.read_bytes}}
            << std::endl;
}

/// Prints the seconds of an all-reduce of one number, and the bytes per second that each process
/// sends in a large one. Of P processes, each sends 2 (P - 1) / P of the bytes of the tensor.
void print_link(train::Processes& processes) {
  auto number = torch::ones(1);
  auto large = torch::zeros(int64_t{1} << 24);  // 64 MiB
  const auto seconds_of = [&](torch::Tensor& tensor) {
    // Without a limit, so that all processes do the same number of runs.
    return app::fastest_seconds(torch::kCPU, INFINITY, [&] { processes.all_reduce(tensor); });
  };
  const auto size = static_cast<double>(processes.world_size());
  const auto sent = 2 * (size - 1) / size * static_cast<double>(large.nbytes());
  const Row speeds{{"all_reduce_s", seconds_of(number)}, {"bytes_per_s", sent / seconds_of(large)}};
  if (processes.rank() == 0) std::cout << speeds << std::endl;
}

void run(const std::filesystem::path& folder, const Row& changes) {
  auto row = Row::parse(std::ifstream(folder / "row.json"));
  row.update(changes);
  const auto processes = distributed::init();
  torch::set_num_threads(row.at("threads").get<int>() / static_cast<int>(processes->world_size()));
  const std::string kind = row.at("kind");
  if (kind == "train") return train_model(row, folder, processes);
  if (kind == "link") return print_link(*processes);
  if (kind == "optimize") return optimize(row, folder);
  if (kind == "encode") return encode(row, folder);
  if (kind == "decode") return decode(row, folder);
  if (kind == "export") return run_exported(row, folder);
  if (kind == "limits") return print_limits(torch::Device(row.at("device").get<std::string>()));
  throw std::runtime_error("row.json has the kind '" + kind +
                           "', expected train, optimize, encode, decode, export, limits or link");
}

}  // namespace
}  // namespace attend

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: bench_contender FOLDER [CHANGES]\n";
    return 2;
  }
  try {
    attend::run(argv[1], nlohmann::json::parse(argc == 3 ? argv[2] : "{}"));
  } catch (const std::exception& error) {
    std::cerr << "bench_contender: " << error.what() << "\n";
    return 1;
  }
}
