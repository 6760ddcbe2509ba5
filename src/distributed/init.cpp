#include "attend/distributed/init.h"

#include "distributed/connect.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
// ProcessGroupGloo.hpp includes headers of Gloo, which LibTorch does not have; they are Debian's.
// Only pointers to Gloo's types are used here, and LibTorch makes the objects, so that the versions
// of the headers and of the library may differ.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>

namespace attend::distributed {
namespace {

using c10d::ProcessGroup;
using c10d::ProcessGroupGloo;
using Tensors = std::vector<torch::Tensor>;

class IgnoredWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// Sums gradients. Without this hook, c10d::Reducer would also divide by the number of processes.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    Tensors gradients{bucket.getBufferRef()};
    return state_->allreduce(gradients)->getFuture();
  }
};

std::unique_ptr<c10d::Reducer> make_reducer(const Tensors& parameters,
                                            const c10::intrusive_ptr<ProcessGroup>& group,
                                            int64_t bucket_bytes) {
  // The backward pass computes the gradients of the last parameters first.
  const Tensors reversed(parameters.rbegin(), parameters.rend());
  const auto first = std::min<int64_t>(bucket_bytes, c10d::kDefaultFirstBucketBytes);
  const std::vector<std::size_t> limits{static_cast<std::size_t>(first),
                                        static_cast<std::size_t>(bucket_bytes)};
  const std::vector<bool> sparse(parameters.size(), false);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(reversed, limits, sparse));
  auto reducer = std::make_unique<c10d::Reducer>(
      reversed, std::move(buckets), group, sparse, bucket_bytes, /*find_unused_parameters=*/true,
      /*gradient_as_bucket_view=*/true, std::unordered_map<std::size_t, std::string>(), first,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<int64_t>());
  reducer->register_comm_hook(std::make_unique<SumHook>(group));
  return reducer;
}

class GlooProcesses : public train::Processes {
 public:
  GlooProcesses(const Launch& launch, const Options& options)
      : launch_(launch), options_(options), group_(make_group(launch, options)) {}

  int64_t rank() const override { return launch_.rank; }
  int64_t size() const override { return launch_.size; }
  int64_t local_size() const override { return launch_.local_size; }

  void sum(torch::Tensor& tensor) override {
    run([&] {
      Tensors tensors{tensor};
      group_->allreduce(tensors)->wait();
    });
  }

  void broadcast(torch::Tensor& tensor) override {
    run([&] {
      Tensors tensors{tensor};
      group_->broadcast(tensors)->wait();
    });
  }

  void sum_gradients_in_backward(const Tensors& parameters, const torch::Tensor& loss) override {
    Tensors trained;
    std::ranges::copy_if(parameters, std::back_inserter(trained),
                         [](const auto& parameter) { return parameter.requires_grad(); });
    const auto is_same = [](const auto& a, const auto& b) { return a.is_same(b); };
    if (!reducer_ || !std::ranges::equal(trained, reduced_, is_same)) {
      reducer_.reset();  // removes its hooks from the parameters
      reducer_ = make_reducer(trained, group_, options_.bucket_bytes);
      reduced_ = std::move(trained);
    }
    // The search for parameters on which the loss does not depend warns if it finds none, which is
    // the usual case.
    IgnoredWarnings ignored;
    const c10::WarningUtils::WarningHandlerGuard guard(&ignored);
    reducer_->prepare_for_backward({loss});
  }

 private:
  static c10::intrusive_ptr<ProcessGroup> make_group(const Launch& launch, const Options& options) {
    const auto rank = static_cast<int>(launch.rank);
    const auto size = static_cast<int>(launch.size);
    try {
      c10d::TCPStoreOptions store_options;
      store_options.port = static_cast<uint16_t>(launch.port);
      store_options.isServer = launch.rank == 0 && !launch.has_store;
      store_options.numWorkers = size;
      store_options.waitWorkers = false;
      store_options.timeout = options.timeout;
      const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::PrefixStore>(
          "attend/" + launch.attempt,
          c10::make_intrusive<c10d::TCPStore>(launch.address, store_options));
      const auto gloo_options = ProcessGroupGloo::Options::create(options.timeout);
      const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
      gloo_options->devices.push_back(interface != nullptr
                                          ? ProcessGroupGloo::createDeviceForInterface(interface)
                                          : ProcessGroupGloo::createDefaultDevice());
      const auto backend = c10::make_intrusive<ProcessGroupGloo>(store, rank, size, gloo_options);
      auto group = c10::make_intrusive<ProcessGroup>(store, rank, size);
      group->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO, backend);
      group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
      return group;
    } catch (const std::exception& error) {
      throw std::runtime_error(
          fmt::format("rank {} of {} cannot be connected to the others through {}:{} (MASTER_ADDR, "
                      "MASTER_PORT): {}",
                      rank, size, launch.address, launch.port, error.what()));
    }
  }

  /// Calls `communicate`. If it fails, throws std::runtime_error, without the stack trace of c10.
  static void run(const std::function<void()>& communicate) {
    try {
      communicate();
    } catch (const std::exception& error) {
      const auto* with_trace = dynamic_cast<const c10::Error*>(&error);
      throw std::runtime_error(
          fmt::format("another process has ended or does not answer: {}",
                      with_trace == nullptr ? error.what() : with_trace->what_without_backtrace()));
    }
  }

  Launch launch_;
  Options options_;
  c10::intrusive_ptr<ProcessGroup> group_;
  Tensors reduced_;  // the parameters of reducer_
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::shared_ptr<train::Processes> connect(const Launch& launch, const Options& options) {
  return std::make_shared<GlooProcesses>(launch, options);
}

std::shared_ptr<train::Processes> init(const Options& options) {
  const auto launch = launch_of([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  if (!launch || launch->size == 1) return train::single_process();
  return connect(*launch, options);
}

}  // namespace attend::distributed
