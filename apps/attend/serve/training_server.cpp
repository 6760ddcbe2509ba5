#include "serve/training_server.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <torch/utils.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>

namespace attend::app {
namespace {

constexpr int kLowPriority = 10;  // added to the nice value

/// Waits for a byte. Returns false if the other end of the pipe is closed.
bool read_byte(int pipe) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(pipe, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

/// Runs the child process. `pipe`: receives a byte when the run exists, and is closed at the end.
[[noreturn]] void serve_training(PageServer& server, const std::filesystem::path& directory,
                                 int pipe) {
  // Signals of the terminal are for the training, whose end ends this process.
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_IGN);
  // A reader of the output of the training must not wait for this process.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::nice(kLowPriority);
  int status = EXIT_SUCCESS;
  try {
    torch::set_num_threads(1);  // threads of LibTorch do not exist after fork
    if (read_byte(pipe)) server.serve(directory, [pipe] { read_byte(pipe); });
  } catch (const std::exception&) {
    status = EXIT_FAILURE;
  }
  std::_Exit(status);  // buffered output belongs to the parent process
}

}  // namespace

TrainingServer::TrainingServer(const ServerAddress& address,
                               const std::filesystem::path& directory) {
  PageServer server(address);
  url_ = server.url();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  child_ = ::fork();
  if (child_ == 0) {
    ::close(ends[1]);
    serve_training(server, directory, ends[0]);
  }
  const int error = errno;
  ::close(ends[0]);
  pipe_ = ends[1];
  if (child_ < 0) {
    ::close(pipe_);
    throw std::system_error(error, std::generic_category(), "fork");
  }
}

TrainingServer::~TrainingServer() {
  ::close(pipe_);
  const auto end = std::chrono::steady_clock::now() + kMaxStop;
  while (::waitpid(child_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) ::kill(child_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void TrainingServer::begin() {
  const char byte = 0;
  [[maybe_unused]] const auto written = ::write(pipe_, &byte, 1);  // fails if the server has ended
}

}  // namespace attend::app
