#include "support/in_threads.h"

#include "distributed/launch.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <random>
#include <thread>

namespace attend::distributed {
namespace {

/// Returns a port that no program listens at, and that the system does not give to connections.
int64_t free_port() {
  std::random_device random;
  std::uniform_int_distribution<uint16_t> ports(20000, 31999);
  for (;;) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(ports(random));
    const bool is_free =
        ::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(listener);
    if (is_free) return ntohs(address.sin_port);
  }
}

}  // namespace

Launch local_launch(int64_t size) {
  Launch launch;
  launch.world_size = size;
  launch.local_world_size = size;
  launch.address = "127.0.0.1";
  launch.port = free_port();
  return launch;
}

std::vector<std::string> in_threads(int64_t size, const std::function<void(int64_t rank)>& work) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (const std::exception& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return messages;
}

std::vector<std::string> in_processes(
    int64_t size, const std::function<void(const std::shared_ptr<train::Processes>&)>& work,
    const Options& options) {
  const auto first = local_launch(size);
  return in_threads(size, [&](int64_t rank) {
    auto launch = first;
    launch.rank = rank;
    work(size == 1 ? train::single_process() : connect(launch, options));
  });
}

}  // namespace attend::distributed
