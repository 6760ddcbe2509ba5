#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace attend::app {

/// Time for the last changes to reach the followers of a server that stops. A client that neither
/// sends nor reads, or a computation, may take longer; the process of the server then ends without
/// waiting for it.
inline constexpr std::chrono::seconds kMaxStop(3);

/// Address at which a server listens.
struct ServerAddress {
  std::string host = "127.0.0.1";  ///< address or name of a network interface
  int port = 8008;                 ///< 0 = any free port
};

/// A web server for the page of a run. Answers GET for the page and for its events, and POST for an
/// explanation of a text. It refuses a request that a page of another site may have caused: the
/// header Host must name this server or be an address, and the header Origin, if there is one, must
/// be the same. Bodies have at
/// most 64 KiB. At most 24 connections are served at a time, 16 of which may follow a run; others
/// wait.
class PageServer {
 public:
  /// Opens the port. Clients wait until `serve` is called. Throws InputError with address and port
  /// if the port is in use or not permitted.
  explicit PageServer(const ServerAddress& address);
  ~PageServer();  ///< closes the port
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// Returns the address of the page, such as "http://127.0.0.1:8008/".
  std::string url() const;

  /// Serves the run in `directory` until `wait` returns, then sends the last changes to its
  /// followers. Can be called once.
  void serve(const std::filesystem::path& directory, const std::function<void()>& wait);

 private:
  class Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace attend::app
