#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace attend::app {

void open_closed_streams() {
  int descriptor = ::open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR);
  if (descriptor >= 0) ::close(descriptor);
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

bool flush_output() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace attend::app
