#include "attend/train/batch_workers.h"

#include "ops/autocast.h"

namespace attend::train {

BatchWorkers::Scope::Scope()
    : cpu_(autocast_state(torch::kCPU).enabled), cuda_(autocast_state(torch::kCUDA).enabled) {
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  at::autocast::set_autocast_enabled(torch::kCUDA, false);
}

BatchWorkers::Scope::~Scope() {
  at::autocast::set_autocast_enabled(torch::kCPU, cpu_);
  at::autocast::set_autocast_enabled(torch::kCUDA, cuda_);
}

BatchWorkers::BatchWorkers(int64_t workers) {
  TORCH_CHECK_VALUE(workers >= 0, "workers (", workers, ") must not be negative");
  for (int64_t i = 0; i < workers; ++i) threads_.push_back(std::make_unique<BackgroundThread>());
}

BatchWorkers::~BatchWorkers() {
  *dropped_ = true;
}

void BatchWorkers::drop() {
  *std::exchange(dropped_, std::make_shared<std::atomic<bool>>(false)) = true;
}

void check_loader_options(const LoaderOptions& options) {
  constexpr int64_t kMaxWorkers = 1024;
  TORCH_CHECK_VALUE(options.workers >= 0 && options.workers <= kMaxWorkers, "workers (",
                    options.workers, ") must be from 0 to ", kMaxWorkers);
}

std::optional<uint64_t> draw_seed(const LoaderOptions& options, Sampler& sampler) {
  if (!options.transform) return std::nullopt;
  return static_cast<uint64_t>(sampler.below(int64_t{1} << 62));
}

torch::data::Example<> transformed(const LoaderOptions& options, torch::data::Example<> batch,
                                   const BatchRequest& request) {
  if (!request.seed) return batch;
  return options.transform(std::move(batch),
                           torch::make_generator<torch::CPUGeneratorImpl>(*request.seed));
}

}  // namespace attend::train
