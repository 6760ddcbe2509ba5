#include "shell_text.h"

#include "io/shell_text.h"
#include "io/utf8.h"

#include <string_view>

namespace attend::app {

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const auto& argument : command) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
    const bool plain = !argument.empty() && argument.find_first_not_of(kPlain) == argument.npos;
    const auto shown = printable(argument);
    text += (text.empty() ? "" : " ") + (plain ? shown : shell_quoted(shown));
  }
  return text;
}

}  // namespace attend::app
