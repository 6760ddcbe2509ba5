#include "attend/distributed/init.h"

#include "attend/input_error.h"
#include "distributed/greeting.h"
#include "distributed/last_words.h"
#include "distributed/launch.h"
#include "distributed/nccl.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
// ProcessGroupGloo.hpp includes headers of Gloo, which LibTorch does not have; they are Debian's.
// Only pointers to Gloo's types are used here, and LibTorch makes the objects, so that the versions
// of the headers and of the library may differ.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace attend::distributed {
namespace {

using c10d::ProcessGroup;
using c10d::ProcessGroupGloo;
using Tensors = std::vector<torch::Tensor>;

class IgnoredWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

using Group = c10::intrusive_ptr<ProcessGroup>;

/// Sums gradients. Without this hook, c10d::Reducer would also divide by the number of processes.
class SumHook : public c10d::CppCommHookInterface<Group> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    Tensors gradients{bucket.getBufferRef()};
    return state_->allreduce(gradients)->getFuture();
  }
};

/// Sums gradients in bfloat16. c10d has a hook in C++ for float16 only, which overflows at 65504.
class Bf16SumHook : public c10d::CppCommHookInterface<Group> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    Tensors compressed{bucket.getBufferRef().to(torch::kBFloat16)};
    const auto expand = [gradients = bucket.getBuffer()](c10::ivalue::Future& sum) {
      gradients.copy_(sum.value().toTensorVector().front());
      return c10::IValue(gradients);
    };
    return state_->allreduce(compressed)->getFuture()->then(expand, c10::TensorType::get());
  }
};

std::unique_ptr<c10d::CommHookInterface> make_hook(const Group& group, Compression compression) {
  if (compression == Compression::bf16) return std::make_unique<Bf16SumHook>(group);
  return std::make_unique<SumHook>(group);
}

std::unique_ptr<c10d::Reducer> make_reducer(const Tensors& parameters, const Group& group,
                                            const Options& options) {
  const auto bucket_bytes = options.bucket_bytes;
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
  reducer->register_comm_hook(make_hook(group, options.compression));
  return reducer;
}

/// Returns the description of an error, without a place in the source code of c10d or Gloo.
std::string error_text(const std::exception& error) {
  const auto* with_trace = dynamic_cast<const c10::Error*>(&error);
  std::string text = with_trace == nullptr ? error.what() : with_trace->what_without_backtrace();
  const auto begin = text.find("[/");
  const auto end = text.find("] ", begin);
  return end == std::string::npos ? text : text.erase(begin, end + 2 - begin);
}

/// True for an error of the connections.
bool is_of_gloo(const std::exception& error) {
  const std::string_view text = error.what();
  // The messages of Gloo contain the path of its source code, except for operations that end
  // because another one has waited too long.
  return text.find("gloo") != std::string_view::npos ||
         text.find("pair closure") != std::string_view::npos;
}

/// Time within which a process that has ended is noticed by the others.
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(5);

/// Returns the error of a process that tried to reach the others through `path`.
std::runtime_error not_connected(const Launch& launch, const std::string& path,
                                 const std::exception& error) {
  return std::runtime_error(
      fmt::format("rank {} of {} cannot be connected to the others through {}: {}", launch.rank,
                  launch.world_size, path, error_text(error)));
}

/// Calls `connect`. If it fails, throws `not_connected`.
template <typename Connect>
auto connected(const Launch& launch, const std::string& path, const Connect& connect) {
  try {
    return connect();
  } catch (const std::exception& error) {
    throw not_connected(launch, path, error);
  }
}

/// Describes the address of the store.
std::string path_of_store(const Launch& launch) {
  return fmt::format("{}:{} (MASTER_ADDR, MASTER_PORT)", launch.address, launch.port);
}

c10::intrusive_ptr<c10d::Store> make_store(const Launch& launch, const Options& options) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(launch.port);
  store_options.isServer = launch.rank == 0 && !launch.has_store;
  store_options.numWorkers = static_cast<int>(launch.world_size);
  store_options.waitWorkers = false;
  store_options.timeout = options.timeout;
  store_options.multiTenant = true;  // `init` may be called again while the server exists
  return connected(launch, path_of_store(launch), [&]() -> c10::intrusive_ptr<c10d::Store> {
    return c10::make_intrusive<c10d::TCPStore>(launch.address, store_options);
  });
}

/// Calls `greet`.
c10::intrusive_ptr<c10d::Store> make_session(const Launch& launch, const Options& options) {
  const auto store = make_store(launch, options);
  try {
    return greet(store, launch,
                 {fmt::format("WORLD_SIZE {}", launch.world_size), "attend " ATTEND_VERSION,
                  "LibTorch " TORCH_VERSION,
                  fmt::format("gradients in buckets of {} bytes", options.bucket_bytes),
                  fmt::format("backend {}", to_string(options.backend)),
                  fmt::format("compression {}", to_string(options.compression)),
                  fmt::format("shard_optimizer {}", options.shard_optimizer)});
  } catch (const c10::Error& error) {  // rank 0 has ended with its store
    throw not_connected(launch, path_of_store(launch), error);
  }
}

int64_t num_gpus() {
  return static_cast<int64_t>(torch::cuda::device_count());
}

/// Returns the backend of tensors on GPUs.
Backend gpu_backend(const Launch& launch, Backend backend) {
  const bool each_has_gpu = num_gpus() >= launch.local_world_size;
  if (backend == Backend::automatic)
    return has_nccl() && each_has_gpu ? Backend::nccl : Backend::gloo;
  if (backend == Backend::gloo || (has_nccl() && each_has_gpu)) return backend;
  throw InputError(
      fmt::format("backend nccl: {}, expected gloo",
                  !at::hasCUDA() ? "LibTorch has no CUDA"
                  : !has_nccl()  ? "attend was built without the headers of NCCL"
                                 : fmt::format("this machine has {} processes, number of GPUs: {}",
                                               launch.local_world_size, num_gpus())));
}

/// Makes the device "cuda" without a number another one for each process of this machine.
void choose_gpu(const Launch& launch) {
  if (num_gpus() == 0) return;
  const auto index = static_cast<c10::DeviceIndex>(launch.local_rank % num_gpus());
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice({c10::kCUDA, index});
}

/// Returns the names in GLOO_SOCKET_IFNAME, which are separated by commas as for PyTorch.
std::vector<std::string> network_interfaces() {
  const char* names = std::getenv("GLOO_SOCKET_IFNAME");
  std::istringstream list(names == nullptr ? "" : names);
  std::vector<std::string> interfaces;
  for (std::string name; std::getline(list, name, ',');) interfaces.push_back(name);
  return interfaces;
}

/// Describes what `network_interfaces` select.
std::string path_of_gloo(const std::vector<std::string>& interfaces) {
  return interfaces.empty() ? "the address to which the name of its machine resolves "
                              "(GLOO_SOCKET_IFNAME, a network interface, is not set)"
                            : fmt::format("the network interface {} (GLOO_SOCKET_IFNAME)",
                                          fmt::join(interfaces, ","));
}

Group make_group(const c10::intrusive_ptr<c10d::Store>& store, const Launch& launch,
                 const Options& options) {
  const auto rank = static_cast<int>(launch.rank);
  const auto size = static_cast<int>(launch.world_size);
  const auto interfaces = network_interfaces();
  return connected(launch, path_of_gloo(interfaces), [&] {
    const auto gloo_options = ProcessGroupGloo::Options::create(options.timeout);
    auto& devices = gloo_options->devices;
    for (const auto& name : interfaces)
      devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    if (devices.empty()) devices.push_back(ProcessGroupGloo::createDefaultDevice());
    const c10::intrusive_ptr<c10d::Backend> gloo =
        c10::make_intrusive<ProcessGroupGloo>(store, rank, size, gloo_options);
    auto group = c10::make_intrusive<ProcessGroup>(store, rank, size);
    group->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::GLOO, gloo);
    const bool nccl = options.backend == Backend::nccl;
    group->setBackend(c10::DeviceType::CUDA,
                      nccl ? ProcessGroup::BackendType::NCCL : ProcessGroup::BackendType::GLOO,
                      nccl ? make_nccl(store, rank, size, options.timeout) : gloo);
    group->setDefaultBackend(ProcessGroup::BackendType::GLOO);
    return group;
  });
}

class ConnectedProcesses : public train::Processes {
 public:
  ConnectedProcesses(const Launch& launch, const Options& options)
      : launch_(launch),
        options_(options),
        store_(make_session(launch, options)),
        last_words_(connected(
            launch, path_of_store(launch),
            [&] { return LastWords(store_, launch, std::min(kPatience, options.timeout)); })),
        group_(make_group(store_, launch, options)) {}

  ~ConnectedProcesses() override {
    reducer_.reset();
    if (group_) group_->shutdown();  // otherwise, NCCL prints a warning
  }

  int64_t rank() const override { return launch_.rank; }
  int64_t world_size() const override { return launch_.world_size; }
  int64_t local_world_size() const override { return launch_.local_world_size; }
  bool shards_optimizer() const override { return options_.shard_optimizer; }

  void all_reduce(torch::Tensor& tensor) override {
    run([&](Tensors& tensors) { return group_->allreduce(tensors); }, tensor);
  }

  void broadcast(torch::Tensor& tensor, int64_t root) override {
    c10d::BroadcastOptions from_root;
    from_root.rootRank = root;
    run([&](Tensors& tensors) { return group_->broadcast(tensors, from_root); }, tensor);
  }

  void backward(const torch::Tensor& loss, const Tensors& parameters, bool all_reduce) override {
    check_connected();
    // Also for the batches before the last one: the reducer must notice which parameters they use.
    prepare_reducer(parameters);
    if (!all_reduce) return loss.backward();
    {
      // The search for parameters on which the loss does not depend warns if it finds none, which
      // is the usual case.
      IgnoredWarnings ignored;
      const c10::WarningUtils::WarningHandlerGuard guard(&ignored);
      reducer_->prepare_for_backward({loss});
    }
    try {
      loss.backward();
    } catch (const std::exception& error) {
      if (!is_of_gloo(error)) throw;
      throw_lost(error);
    }
  }

  bool end_with_error(const std::string& message) override {
    last_words_.announce(message);
    close();
    return last_words_.is_new(message);
  }

 private:
  /// Makes the reducer for the parameters that require a gradient, unless it exists.
  void prepare_reducer(const Tensors& parameters) {
    Tensors trained;
    std::ranges::copy_if(parameters, std::back_inserter(trained),
                         [](const auto& parameter) { return parameter.requires_grad(); });
    const auto is_same = [](const auto& a, const auto& b) { return a.is_same(b); };
    if (reducer_ && std::ranges::equal(trained, reduced_, is_same)) return;
    reducer_.reset();  // removes its hooks from the parameters
    reducer_ = make_reducer(trained, group_, options_);
    reduced_ = std::move(trained);
  }

  void check_connected() const {
    if (!group_) throw std::runtime_error("the connection to the other processes is closed");
  }

  template <typename Start>
  void run(const Start& start, const torch::Tensor& tensor) {
    check_connected();
    try {
      Tensors tensors{tensor};
      start(tensors)->wait();
    } catch (const std::exception& error) {
      throw_lost(error);
    }
  }

  /// Closes the connections. The others notice it.
  void close() {
    reducer_.reset();
    group_.reset();
  }

  [[noreturn]] void throw_lost(const std::exception& error) {
    close();
    const auto text = error_text(error);  // c10d adds general advice to the sentence of Gloo
    throw std::runtime_error(last_words_.cause(text.substr(0, text.find(". "))));
  }

  Launch launch_;
  Options options_;
  c10::intrusive_ptr<c10d::Store> store_;
  LastWords last_words_;
  Group group_;      // null: closed
  Tensors reduced_;  // the parameters of reducer_
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace

std::string value_at_first_start(const Launch& launch, const std::string& key,
                                 const std::string& value) {
  if (!launch.has_store) return value;
  // With a prefix, since compareSet takes an empty value for none.
  const auto first =
      make_store(launch, {})->compareSet("attend/first/" + key, "", "value " + value);
  return first.substr(std::string_view("value ").size());
}

std::shared_ptr<train::Processes> connect(const Launch& launch, const Options& options) {
  auto resolved = options;
  resolved.backend = gpu_backend(launch, options.backend);
  choose_gpu(launch);
  return std::make_shared<ConnectedProcesses>(launch, resolved);
}

std::shared_ptr<train::Processes> init(const Options& options) {
  const auto launch = launch_of_this_process();
  if (!launch || launch->world_size == 1) return train::single_process();
  return connect(*launch, options);
}

}  // namespace attend::distributed
