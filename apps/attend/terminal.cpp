#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

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

}  // namespace attend::app
