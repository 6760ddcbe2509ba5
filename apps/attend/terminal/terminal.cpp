#include "terminal/terminal.h"

#include "attend/io/utf8.h"

#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace attend::app {
namespace {

/// The value of an environment variable; empty if unset.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool is_terminal(int stream) {
  const auto terminal = environment("TERM");
  return ::isatty(stream) == 1 && !terminal.empty() && terminal != "dumb";
}

constexpr const char* kDefaultPager = "command -v less > /dev/null || exit 127; exec less";

/// Returns false if the pager cannot be started or fails.
bool pipe_to(const char* pager, const std::string& text) {
  ignore_write_signals();  // the pager may end before it has read the text
  auto* pipe = ::popen(pager, "w");
  if (pipe == nullptr) return false;
  // Ctrl-C is a key of the pager. It must not end this process, which the shell waits for.
  const auto interrupt = std::signal(SIGINT, SIG_IGN);
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = ::pclose(pipe);
  std::signal(SIGINT, interrupt);
  return !WIFEXITED(status) || WEXITSTATUS(status) == 0;
}

}  // namespace

void open_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    // `open` returns the lowest free descriptor, which is `stream`.
    ::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

void ignore_write_signals() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
}

bool input_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

void write_error(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!flush_output()) throw std::runtime_error("standard output cannot be written");
}

void print_text_now(const std::string& text) {
  if (::isatty(STDOUT_FILENO) != 1) return print_now(text);
  std::string shown;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find_first_of("\n\t", begin), text.size());
    shown += printable(std::string_view(text).substr(begin, end - begin));
    if (end < text.size()) shown += text[end];
    begin = end + 1;
  }
  print_now(shown);
}

bool flush_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

bool output_pipe_is_closed() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && S_ISFIFO(status.st_mode) &&
         ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

bool error_is_terminal() {
  return is_terminal(STDERR_FILENO);
}

bool output_is_terminal() {
  return is_terminal(STDOUT_FILENO);
}

int terminal_width(int stream) {
  winsize size{};
  if (::ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  constexpr int kDefaultWidth = 80;
  const auto columns = environment("COLUMNS");
  int width = 0;
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  return width > 0 ? width : kDefaultWidth;
}

int terminal_height() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

bool colors_enabled() {
  return environment("NO_COLOR").empty();
}

bool output_has_colors() {
  return output_is_terminal() && colors_enabled();
}

bool output_has_256_colors() {
  const bool has_256_colors = environment("TERM").find("256") != std::string_view::npos ||
                              !environment("COLORTERM").empty();
  return output_has_colors() && has_256_colors;
}

bool locale_is_utf8() {
  const auto locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return false;  // such as a locale that is not installed
  const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
  ::freelocale(locale);
  return utf8;
}

void show_in_pager(const std::string& text) {
  ::setenv("LESS", R"(FRXPsspace\: forward, b\: back, q\: quit)", /*replace=*/0);
  const char* pager = std::getenv("PAGER");
  if (pager == nullptr) pager = kDefaultPager;
  if (*pager == '\0' || !pipe_to(pager, text)) print_now(text);
}

}  // namespace attend::app
