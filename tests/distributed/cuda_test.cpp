// Processes whose tensors are on GPUs. Skipped without a GPU.
#include "distributed/nccl.h"
#include "support/in_threads.h"

#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/nn/modules/linear.h>

namespace attend::distributed {
namespace {

using testing::Each;
using testing::IsEmpty;

/// Checks the sums of all processes.
void expect_sums(train::Processes& processes) {
  const auto size = static_cast<double>(processes.world_size());
  const auto rank = static_cast<double>(processes.rank());
  for (const auto device : {torch::kCUDA, torch::kCPU}) {
    auto sum = torch::full({3}, rank + 1.0, device);
    processes.all_reduce(sum);
    EXPECT_TRUE(sum.cpu().equal(torch::full({3}, size * (size + 1.0) / 2.0))) << sum;
    auto first = torch::full({3}, rank + 5.0, device);
    processes.broadcast(first, 0);
    EXPECT_TRUE(first.cpu().equal(torch::full({3}, 5.0))) << first;
  }
}

/// Checks the sums of the gradients of all processes. Each process needs a GPU of its own, since
/// threads share autograd's thread of a GPU, where one would wait for the other.
void expect_sums_of_gradients(train::Processes& processes) {
  const auto size = static_cast<double>(processes.world_size());
  const auto rank = static_cast<double>(processes.rank());
  torch::nn::Linear linear(4, 2);
  linear->to(torch::kCUDA);
  const auto x = torch::full({1, 4}, rank + 1.0, torch::kCUDA);
  processes.backward(linear(x).sum(), linear->parameters(), /*all_reduce=*/true);
  EXPECT_TRUE(linear->weight.grad().cpu().equal(torch::full({2, 4}, size * (size + 1.0) / 2.0)));
}

/// Calls `work` with the processes of this machine, which are threads.
std::vector<std::string> in_processes_with(Backend backend, int64_t size,
                                           const std::function<void(train::Processes&)>& work) {
  const auto first = local_launch(size);
  return in_threads(size, [&](int64_t rank) {
    auto launch = first;
    launch.rank = launch.local_rank = rank;
    work(*connect(launch, {.timeout = std::chrono::minutes(1), .backend = backend}));
  });
}

TEST(ProcessesOnCuda, SumWithGloo) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  EXPECT_THAT(in_processes_with(Backend::gloo, 2, expect_sums), Each(IsEmpty()));
}

TEST(ProcessesOnCuda, SumWithNccl) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  if (!has_nccl()) GTEST_SKIP() << "built without the headers of NCCL";
  const auto gpus = static_cast<int64_t>(torch::cuda::device_count());
  const auto messages = in_processes_with(Backend::nccl, gpus, [](train::Processes& processes) {
    expect_sums(processes);
    expect_sums_of_gradients(processes);
  });
  EXPECT_THAT(messages, Each(IsEmpty()));
}

TEST(ProcessesOnCuda, NeedAGpuEachForNccl) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto gpus = static_cast<int64_t>(torch::cuda::device_count());
  const auto messages = in_processes_with(Backend::nccl, gpus + 1, expect_sums);
  EXPECT_THAT(messages, Each(testing::HasSubstr("nccl"))) << testing::PrintToString(messages);
}

}  // namespace
}  // namespace attend::distributed
