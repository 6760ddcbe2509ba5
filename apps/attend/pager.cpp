#include "pager.h"

#include "terminal.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace attend::app {
namespace {

constexpr const char* kDefault = "command -v less > /dev/null || exit 127; exec less";

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

void show_in_pager(const std::string& text) {
  ::setenv("LESS", R"(FRXPsspace\: forward, b\: back, q\: quit)", /*replace=*/0);
  const char* pager = std::getenv("PAGER");
  if (pager == nullptr) pager = kDefault;
  if (*pager == '\0' || !pipe_to(pager, text)) print_now(text);
}

}  // namespace attend::app
