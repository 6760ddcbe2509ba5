#include "serve/page_server.h"

#include "attend/input_error.h"
#include "attend/train/background.h"
#include "error_message.h"
#include "json_text.h"
#include "serve/live_run.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <semaphore>
#include <thread>

namespace attend::app {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxBody = 64 * 1024;
constexpr std::ptrdiff_t kMaxConnections = 24;
constexpr int kMaxFollowers = 16;
constexpr auto kPollInterval = 250ms;
constexpr auto kDataInterval = 1s;        // after new data, until the next look, at least
constexpr int kDataShare = 4;             // and this many times as long as the data took
constexpr auto kHeartbeatInterval = 15s;  // finds followers whose computers have left
constexpr int kSocketTimeout = 5;         // of reading and writing, in seconds

constexpr const char* kJson = "application/json";

/// Sets the content of a response. cpp-httplib compresses other contents, with Brotli's slowest
/// level, which takes longer than to send them to a browser on this computer.
void set_uncompressed(httplib::Response& response, std::shared_ptr<const std::string> content,
                      const char* type) {
  const auto size = content->size();
  response.set_content_provider(
      size, type,
      [content = std::move(content)](std::size_t offset, std::size_t length,
                                     httplib::DataSink& sink) {
        return sink.write(content->data() + offset, length);
      });
}

void set_error(httplib::Response& response, int status, const std::string& message) {
  response.status = status;
  response.set_content(json_text({{"error", message}}), kJson);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// True for an IPv4 address, or an IPv6 address in brackets.
bool is_address(const std::string& host) {
  in6_addr address{};
  if (host.starts_with('[') && host.ends_with(']'))
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &address) == 1;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

/// Runs the connections of a server in threads, at most `kMaxConnections` at a time.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(const std::atomic<bool>& stopping)
      : stopping_(stopping), pool_(kMaxConnections) {}

  /// Waits for a free thread. The system keeps new connections waiting meanwhile.
  void enqueue(std::function<void()> connection) override {
    while (!free_.try_acquire_for(kPollInterval)) {
      if (stopping_) break;
    }
    pool_.enqueue([this, connection = std::move(connection)] {
      connection();
      free_.release();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  const std::atomic<bool>& stopping_;
  std::counting_semaphore<2 * kMaxConnections> free_{kMaxConnections};
  httplib::ThreadPool pool_;
};

}  // namespace

class PageServer::Impl {
 public:
  explicit Impl(const ServerAddress& address) : host_(address.host) {
    // By default, httplib sets SO_REUSEPORT, with which two servers can have the same port.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    errno = 0;
    port_ = address.port;
    if (port_ == 0)
      port_ = server_.bind_to_any_port(host_);
    else if (!server_.bind_to_port(host_, port_))
      port_ = -1;
    if (port_ < 0) {
      throw InputError(fmt::format(
          "port {} of {} cannot be opened: {}; pass another port, or 0 for any free one",
          address.port, host_, errno == 0 ? "unknown address" : std::strerror(errno)));
    }
    if (host_.find(':') != host_.npos) host_ = fmt::format("[{}]", host_);
  }
  ~Impl() { server_.close(); }

  std::string url() const { return fmt::format("http://{}:{}/", host_, port_); }

  void serve(const std::filesystem::path& directory, const std::function<void()>& wait) {
    run_ = std::make_unique<LiveRun>(directory);
    set_limits();
    set_handlers();
    train::BackgroundThread listener;
    listener.add([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(1ms);  // stop() has no effect before
    wait();
    stopping_ = true;
    server_.stop();
  }

 private:
  /// A server whose port can be closed before it listens.
  class ClosableServer : public httplib::Server {
   public:
    void close() {
      if (svr_sock_ != INVALID_SOCKET) ::close(svr_sock_.exchange(INVALID_SOCKET));
    }
  };

  void set_limits() {
    server_.new_task_queue = [this] { return new ConnectionThreads(stopping_); };
    // The rest of a refused request must not be read as a request.
    server_.set_keep_alive_max_count(1);
    server_.set_payload_max_length(kMaxBody);
    server_.set_read_timeout(kSocketTimeout);
    server_.set_write_timeout(kSocketTimeout);
    server_.set_default_headers({{"Cache-Control", "no-store"},
                                 {"Content-Security-Policy", "frame-ancestors 'none'"},
                                 {"Cross-Origin-Resource-Policy", "same-origin"},
                                 {"X-Content-Type-Options", "nosniff"}});
  }

  void set_handlers() {
    using Answer = httplib::Server::HandlerResponse;
    server_.set_pre_routing_handler([this](const auto& request, auto& response) {
      return is_refused(request, response) ? Answer::Handled : Answer::Unhandled;
    });
    server_.Get("/", [this](const auto&, auto& response) {
      const auto report = run_->report();
      set_uncompressed(response, {report, &report->page}, "text/html; charset=utf-8");
    });
    server_.Get("/events", [this](const auto& request, auto& response) {
      follow(LiveRun::Version::parse(request.get_param_value("version")), response);
    });
    server_.Post("/explain", [this](const auto& request, auto& response) {
      set_uncompressed(response, std::make_shared<const std::string>(run_->explain(request.body)),
                       kJson);
    });
    server_.set_exception_handler(
        [](const auto& request, auto& response, std::exception_ptr thrown) {
          try {
            std::rethrow_exception(std::move(thrown));
          } catch (const InputError& error) {
            // Only a question can be wrong; the page is not shown because a file is damaged.
            set_error(response, request.path == "/explain" ? 400 : 500, error.what());
          } catch (const std::exception& error) {
            set_error(response, 500, error_text(error));
          }
        });
    server_.set_error_handler([](const auto&, auto& response) {
      if (response.body.empty())
        set_error(response, response.status,
                  response.status == 404 ? "no such page: expected /"
                  : response.status == 413
                      ? fmt::format("the body has more than {} bytes", kMaxBody)
                      : "the request is refused");
    });
  }

  /// Answers a request that is not permitted, and returns true.
  bool is_refused(const httplib::Request& request, httplib::Response& response) const {
    const auto refuse = [&](int status, const std::string& message) {
      set_error(response, status, message);
      return true;
    };
    const auto host = request.get_header_value("Host");
    if (request.get_header_value_count("Host") != 1 || !is_own(host)) {
      return refuse(403, fmt::format("Host is '{}', expected '{}:{}'", host, host_, port_));
    }
    const bool posts = request.method == "POST";
    if (!(request.method == "GET" || (posts && request.path == "/explain"))) {
      response.set_header("Allow", request.path == "/explain" ? "POST" : "GET");
      return refuse(
          405, fmt::format("the method is {}, expected GET, or POST of /explain", request.method));
    }
    if (request.has_header("Range")) return refuse(400, "ranges are not supported");
    if (!posts) return false;
    if (const auto origin = request.get_header_value("Origin");
        request.has_header("Origin") && origin != "http://" + host)
      return refuse(403, fmt::format("Origin is '{}', expected 'http://{}'", origin, host));
    const auto type = request.get_header_value("Content-Type");
    if (type != kJson && !type.starts_with(fmt::format("{};", kJson)))  // such as a charset
      return refuse(415, fmt::format("Content-Type is '{}', expected '{}'", type, kJson));
    if (request.has_header("Content-Encoding"))
      return refuse(415, "the body has a Content-Encoding, expected none");
    if (request.has_header("Transfer-Encoding") || !request.has_header("Content-Length"))
      return refuse(411, "the body has no Content-Length");
    return false;
  }

  /// True if the header Host names this server, by its name or by any address: the name of another
  /// site may lead to this server, but an address leads nowhere else.
  bool is_own(std::string host) const {
    if (const auto port = fmt::format(":{}", port_); host.ends_with(port))
      host.resize(host.size() - port.size());
    else if (port_ != 80)
      return false;
    return lower(host) == lower(host_) || lower(host) == "localhost" || is_address(host);
  }

  /// Sends the changes of the run until the client leaves or the server stops.
  void follow(LiveRun::Version shown, httplib::Response& response) {
    if (++followers_ > kMaxFollowers) {
      --followers_;
      return set_error(response, 503,
                       fmt::format("{} other clients follow the run, the maximum", kMaxFollowers));
    }
    const auto version = std::make_shared<LiveRun::Version>(std::move(shown));
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, version](std::size_t, httplib::DataSink& sink) { return send(*version, sink); },
        [this](bool) { --followers_; });
  }

  /// Sends events until the server stops. `shown`: the version that the client shows. Returns false
  /// if the client has left.
  bool send(LiveRun::Version& shown, httplib::DataSink& sink) const {
    using Clock = std::chrono::steady_clock;
    auto last_sent = Clock::now();
    while (true) {
      const bool is_last = stopping_;
      const auto begin = Clock::now();
      std::string events;
      bool is_heavy = false;  // whether the whole report was made, or tried
      try {
        events = run_->changes_since(shown);
        is_heavy = events.starts_with("event: data");
      } catch (const std::exception&) {
        // The files of a run change one after the other; a later look finds all of them.
        is_heavy = true;
      }
      const auto now = Clock::now();
      if (events.empty() && now - last_sent > kHeartbeatInterval) events = ":\n\n";
      if (!events.empty()) {
        if (!sink.write(events.data(), events.size())) return false;
        last_sent = now;
      }
      if (is_last) break;
      if (!sink.is_writable()) return false;
      Clock::duration pause = kPollInterval;
      // New data contains the whole report. With frequent evaluations, most are left out.
      if (is_heavy)
        pause = std::max<Clock::duration>(kDataInterval, kDataShare * (Clock::now() - begin));
      for (Clock::duration waited{}; waited < pause && !stopping_; waited += kPollInterval)
        std::this_thread::sleep_for(kPollInterval);
    }
    sink.done();
    return true;
  }

  std::string host_;  // as in an address of a page
  int port_ = -1;
  std::unique_ptr<LiveRun> run_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> followers_ = 0;
  ClosableServer server_;  // last: its handlers use the other members
};

PageServer::PageServer(const ServerAddress& address) : impl_(std::make_unique<Impl>(address)) {}

PageServer::~PageServer() = default;

std::string PageServer::url() const {
  return impl_->url();
}

void PageServer::serve(const std::filesystem::path& directory, const std::function<void()>& wait) {
  impl_->serve(directory, wait);
}

}  // namespace attend::app
