#include "terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace attend::app {

void open_closed_streams() {
  int descriptor = ::open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR);
  if (descriptor >= 0) ::close(descriptor);
}

void write_error(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

bool flush_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

std::size_t terminal_width() {
  constexpr std::size_t kLeast = 50;
  constexpr std::size_t kUnknown = 80;
  const char* columns = std::getenv("COLUMNS");
  const int given = columns != nullptr ? std::atoi(columns) : 0;
  winsize size{};
  const bool is_terminal = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::size_t width = given > 0     ? static_cast<std::size_t>(given)
                            : is_terminal ? size.ws_col
                                          : kUnknown;
  return std::max(width, kLeast);
}

}  // namespace attend::app
