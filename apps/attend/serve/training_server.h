#pragma once

#include "serve/page_server.h"

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace attend::app {

/// Serves the page of the run that this process trains. The server is a child process of low
/// priority: loading a model in the process of the training would change the random numbers of the
/// training, and training never waits for a client. The server stops when this object is destroyed
/// or when this process ends, however it ends.
class TrainingServer {
 public:
  /// Opens the port and starts the child process. Call this function while the process has no other
  /// threads at work. Clients wait until `begin` is called. Throws InputError as `PageServer` does.
  TrainingServer(const ServerAddress& address, const std::filesystem::path& directory);
  /// Lets the server send the last changes, for at most `kMaxStop`, and stops it.
  ~TrainingServer();
  TrainingServer(const TrainingServer&) = delete;
  TrainingServer& operator=(const TrainingServer&) = delete;

  /// Returns the address of the page.
  const std::string& url() const { return url_; }
  /// Starts answering. Call this function when the run exists.
  void begin();

 private:
  std::string url_;
  int pipe_ = -1;  // the child process stops when it is closed
  pid_t child_ = -1;
};

}  // namespace attend::app
