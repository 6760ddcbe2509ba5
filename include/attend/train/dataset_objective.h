#pragma once

#include "attend/train/batch_workers.h"
#include "attend/train/loss.h"
#include "attend/train/objective.h"

#include <torch/data/datasets/base.h>
#include <torch/data/example.h>
#include <torch/data/transforms/stack.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace attend::train {

/// Returns the samples at `indices` of a torch::data dataset, stacked: data (B, ...), target
/// (B, ...). Works for datasets with samples of type `torch::data::Example<>`, and for such
/// datasets mapped with `torch::data::transforms::Stack`.
///
///     const auto batch = get_batch(dataset, {0, 5, 2});
template <typename Dataset>
torch::data::Example<> get_batch(Dataset& dataset, const std::vector<std::size_t>& indices) {
  auto batch = dataset.get_batch(indices);
  if constexpr (std::is_same_v<decltype(batch), torch::data::Example<>>)
    return batch;
  else
    return torch::data::transforms::Stack<torch::data::Example<>>().apply_batch(std::move(batch));
}

/// Trains any module on map-style datasets of torch::data (`torch::data::datasets::MNIST`, your own
/// subclass of `torch::data::datasets::Dataset`), with or without transforms (`map`). Each epoch
/// visits every training sample once, in a random order. Checkpoints contain this order. With
/// several processes, random transforms of the datasets may draw only from LibTorch's global
/// generators, or `data_samples` is overridden. Those of `LoaderOptions::transform` may not.
///
/// `options.workers` threads prepare batches while others are trained on. Each has a copy of the
/// training dataset, as in torch::data::DataLoader: copies must not share what `get_batch` changes,
/// and the datasets draw no random numbers, which would depend on the threads.
///
///     auto objective = std::make_shared<DatasetObjective<Images>>(
///         net.ptr(), Images(0), Images(1),
///         [net](auto& x, auto& y) mutable { return classification_loss(net(x), y); });
///     Trainer(objective, config).run();
template <typename Dataset>
class DatasetObjective : public Objective {
 public:
  /// Function that returns the loss of `data` (B, ...) and `target` (B, ...), summed over the B
  /// samples.
  using LossFunction =
      std::function<TrainingLoss(const torch::Tensor& data, const torch::Tensor& target)>;

  /// `module` is the module that `loss` calls. Throws c10::ValueError if `module` or `loss` is
  /// null, if the `size()` of a dataset is 0 or std::nullopt, or if an option is out of range.
  DatasetObjective(std::shared_ptr<torch::nn::Module> module, Dataset training, Dataset validation,
                   LossFunction loss, LoaderOptions options = {})
      : module_(std::move(module)),
        training_(std::move(training)),
        validation_(std::move(validation)),
        loss_(std::move(loss)),
        options_(std::move(options)),
        ahead_({.draw = [this](int64_t size, Sampler& sampler) { return draw(size, sampler); },
                .start = [this](const BatchRequest& request,
                                bool is_own) { return start(request, is_own); },
                .restart = [this] { workers_.drop(); }}),
        workers_(options_.workers) {
    check_loader_options(options_);
    TORCH_CHECK_VALUE(module_ != nullptr, "DatasetObjective requires a module, found null");
    TORCH_CHECK_VALUE(loss_ != nullptr, "DatasetObjective requires a loss function, found null");
    TORCH_CHECK_VALUE(training_.size().value_or(0) > 0,
                      "the training dataset is empty, or its size() is unknown; see "
                      "StreamObjective for examples whose number is unknown");
    TORCH_CHECK_VALUE(validation_.size().value_or(0) > 0,
                      "the validation dataset is empty, or its size() is unknown");
    copies_.assign(static_cast<std::size_t>(options_.workers), training_);
  }

  torch::nn::Module& module() override { return *module_; }

  TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
    const auto batch = ahead_.next(size, sampler, *processes_, 2 * workers_.size());
    return {size, size, [this, batch] { return loss(batch.get()); }};
  }

  Evaluation evaluate(const EvaluationOptions& options) override {
    return evaluate_samples(
        static_cast<int64_t>(*validation_.size()), options,
        [&](const auto& indices) { return loss(get_batch(validation_, indices)); });
  }

  void set_processes(std::shared_ptr<Processes> processes) override {
    processes_ = std::move(processes);
  }

  /// Returns the sizes of both datasets and a few samples of each, spread evenly.
  std::map<std::string, torch::Tensor> data_samples() override {
    std::map<std::string, torch::Tensor> samples;
    const auto add = [&](const std::string& name, Dataset& dataset) {
      const auto size = static_cast<int64_t>(*dataset.size());
      const auto rows = spread(size, 8);
      const auto batch = get_batch(dataset, {rows.begin(), rows.end()});
      samples.emplace(name + ".size", torch::tensor(size));
      samples.emplace(name + ".data", batch.data);
      samples.emplace(name + ".target", batch.target);
    };
    add("training", training_);
    add("validation", validation_);
    return samples;
  }

 private:
  BatchRequest draw(int64_t size, Sampler& sampler) const {
    const auto rows = sampler.rows(static_cast<int64_t>(*training_.size()), size);  // (B)
    const auto* first = rows.template const_data_ptr<int64_t>();
    return {.size = size, .indices = {first, first + size}, .seed = draw_seed(options_, sampler)};
  }

  // Several processes draw the indices of all parts of a batch, and each reads only its own
  // samples.
  std::shared_future<torch::data::Example<>> start(const BatchRequest& request, bool is_own) {
    if (!is_own) return {};
    return workers_.add([this, request](std::size_t worker) {
      auto& dataset = copies_.empty() ? training_ : copies_[worker];
      return transformed(options_, get_batch(dataset, request.indices), request);
    });
  }

  TrainingLoss loss(const torch::data::Example<>& batch) const {
    const auto device = module_->parameters().front().device();
    return loss_(batch.data.to(device), batch.target.to(device));
  }

  std::shared_ptr<torch::nn::Module> module_;
  Dataset training_;
  Dataset validation_;
  LossFunction loss_;
  LoaderOptions options_;
  std::shared_ptr<Processes> processes_ = single_process();
  std::vector<Dataset> copies_;  // of `training_`, for each worker
  BatchesAhead<std::shared_future<torch::data::Example<>>> ahead_;
  BatchWorkers workers_;  // destroyed first
};

}  // namespace attend::train
