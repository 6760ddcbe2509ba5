#include "attend/distributed/init.h"

#include "attend/version.h"
#include "distributed/error_report.h"
#include "distributed/launch.h"
#include "distributed/process_group.h"
#include "distributed/rendezvous.h"
#include "distributed/store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/version.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace attend::distributed {
namespace {

using Tensors = std::vector<torch::Tensor>;

class IgnoredWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

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

/// True for an error of the connections.
bool is_of_gloo(const std::exception& error) {
  const std::string_view text = error.what();
  // The messages of Gloo contain the path of its source code, except for operations that end
  // because another one has waited too long.
  return text.find("gloo") != std::string_view::npos ||
         text.find("pair closure") != std::string_view::npos;
}

/// Calls `rendezvous`. If a process has no network, all end with its message.
c10::intrusive_ptr<c10d::Store> make_session(const Launch& launch, const Options& options,
                                             const Network& network) {
  const auto store = make_store(launch, options.timeout);
  // The text of a process without a network differs from that of every other process.
  const auto network_text = network.error.empty()
                                ? "a network"
                                : fmt::format("no network in rank {} through {}: {}", launch.rank,
                                              network.path, network.error);
  try {
    return rendezvous(
        store, launch,
        {network_text, fmt::format("WORLD_SIZE {}", launch.world_size),
         fmt::format("attend {}", ATTEND_VERSION), fmt::format("LibTorch {}", TORCH_VERSION),
         fmt::format("gradients in buckets of {} bytes", options.bucket_bytes),
         fmt::format("backend {}", to_string(options.backend)),
         fmt::format("compression {}", to_string(options.compression))});
  } catch (const c10::Error& error) {
    throw not_connected(launch, path_of_store(launch),
                        std::runtime_error("rank 0 has ended with its store, perhaps without this "
                                           "process, as with another WORLD_SIZE: " +
                                           error_text(error)));
  }
}

/// Time within which a process that has ended is noticed by the others.
constexpr std::chrono::milliseconds kGracePeriod = std::chrono::seconds(5);

class ConnectedProcesses : public train::Processes {
 public:
  ConnectedProcesses(const Launch& launch, const Options& options)
      : launch_(launch),
        options_(options),
        network_(find_network()),
        store_(make_session(launch, options, network_)),
        error_report_(connected(
            launch, path_of_store(launch),
            [&] { return ErrorReport(store_, launch, std::min(kGracePeriod, options.timeout)); })),
        group_(make_group(store_, launch, options, network_, error_report_)) {}

  ~ConnectedProcesses() override {
    reducer_.reset();
    if (group_) group_->shutdown();  // otherwise, NCCL prints a warning
  }

  int64_t rank() const override { return launch_.rank; }
  int64_t world_size() const override { return launch_.world_size; }
  int64_t local_world_size() const override { return launch_.local_world_size; }

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
    error_report_.announce(message);
    close();
    return error_report_.is_new(message);
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
    throw std::runtime_error(error_report_.cause(text.substr(0, text.find(". "))));
  }

  Launch launch_;
  Options options_;
  Network network_;
  c10::intrusive_ptr<c10d::Store> store_;
  ErrorReport error_report_;
  Group group_;      // null: closed
  Tensors reduced_;  // the parameters of reducer_
  std::unique_ptr<c10d::Reducer> reducer_;
};

}  // namespace

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
