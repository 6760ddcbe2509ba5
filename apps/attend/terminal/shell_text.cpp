#include "terminal/shell_text.h"

#include "attend/io/utf8.h"

namespace attend::app {

std::string shell_quoted(std::string_view text, std::string_view quote_in_quotes) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += quote_in_quotes;
    else
      result += c;
  }
  return result + "'";
}

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
