#pragma once

#include "attend/train/loss.h"
#include "attend/train/objective.h"

#include <torch/data/datasets/base.h>
#include <torch/data/example.h>
#include <torch/data/transforms/stack.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
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
/// several processes, random transforms may draw only from LibTorch's global generators, or
/// `data_samples` is overridden.
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
  /// null, or if the `size()` of a dataset is 0 or std::nullopt.
  DatasetObjective(std::shared_ptr<torch::nn::Module> module, Dataset training, Dataset validation,
                   LossFunction loss)
      : module_(std::move(module)),
        training_(std::move(training)),
        validation_(std::move(validation)),
        loss_(std::move(loss)) {
    TORCH_CHECK_VALUE(module_ != nullptr, "DatasetObjective requires a module, found null");
    TORCH_CHECK_VALUE(loss_ != nullptr, "DatasetObjective requires a loss function, found null");
    TORCH_CHECK_VALUE(training_.size().value_or(0) > 0,
                      "the training dataset is empty, or its size() is unknown");
    TORCH_CHECK_VALUE(validation_.size().value_or(0) > 0,
                      "the validation dataset is empty, or its size() is unknown");
  }

  torch::nn::Module& module() override { return *module_; }

  TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
    const auto rows = sampler.rows(static_cast<int64_t>(*training_.size()), size);  // (B)
    const auto* first = rows.template const_data_ptr<int64_t>();
    const std::vector<std::size_t> indices(first, first + size);
    // The samples are read when the loss is computed: several processes draw the indices of all
    // parts of a batch, and each reads only its own samples.
    return {size, size, [this, indices] { return loss(get_batch(training_, indices)); }};
  }

  Evaluation evaluate(const EvaluationOptions& options) override {
    const auto count = static_cast<int64_t>(*validation_.size());
    const auto batches = (count + kEvalBatchSize - 1) / kEvalBatchSize;
    return evaluate_in_batches(batches, options, [&](int64_t index) {
      const auto first = index * kEvalBatchSize;
      std::vector<std::size_t> indices(
          static_cast<std::size_t>(std::min(kEvalBatchSize, count - first)));
      std::iota(indices.begin(), indices.end(), static_cast<std::size_t>(first));
      const auto loss = this->loss(get_batch(validation_, indices));
      Evaluation result{.loss = loss.sum.template item<double>(),
                        .num_targets = std::ssize(indices)};
      if (loss.exact_match) result.exact_match = loss.exact_match();
      return result;
    });
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
  TrainingLoss loss(const torch::data::Example<>& batch) const {
    const auto device = module_->parameters().front().device();
    return loss_(batch.data.to(device), batch.target.to(device));
  }

  std::shared_ptr<torch::nn::Module> module_;
  Dataset training_;
  Dataset validation_;
  LossFunction loss_;
};

}  // namespace attend::train
