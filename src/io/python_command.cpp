#include "io/python_command.h"

#include <fmt/format.h>

namespace attend {

std::string python_command(std::string_view code, std::initializer_list<std::string> arguments) {
  auto command = fmt::format("python3 -c \"{}\"", code);
  for (const auto& argument : arguments) {
    command += " '";
    for (const char c : argument) command += c == '\'' ? "'\\''" : std::string(1, c);
    command += "'";
  }
  return command;
}

}  // namespace attend
