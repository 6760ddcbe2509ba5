#include "commands.h"
#include "completion.h"
#include "options.h"

#include <fmt/format.h>

#include <memory>

namespace attend::app {

/// A shell for which the command prints a completion script.
enum class Shell { bash, zsh, fish };

}  // namespace attend::app

namespace attend {

template <>
struct EnumNames<app::Shell> {
  static constexpr std::array<std::string_view, 3> names{"bash", "zsh", "fish"};
};

}  // namespace attend

namespace attend::app {
namespace {

std::string completion(const CLI::App& app, Shell shell) {
  switch (shell) {
    case Shell::zsh:
      return zsh_completion(app);
    case Shell::fish:
      return fish_completion(app);
    default:
      return bash_completion(app);
  }
}

}  // namespace

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print a shell completion script");
  auto shell = std::make_shared<Shell>(Shell::bash);
  const auto set = [shell](const std::string& text) {
    *shell = parse_choice<Shell>("shell", text);
  };
  command->add_option_function<std::string>("shell", set, "shell to complete for")
      ->required()
      ->type_name(choices<Shell>());
  command->footer(
      "Examples:\n"
      "  source <(attend completion bash)  # in the current shell, or in ~/.bashrc\n"
      "  source <(attend completion zsh)   # in ~/.zshrc, after compinit\n"
      "  attend completion fish | source   # or > ~/.config/fish/completions/attend.fish");
  command->callback([&app, shell] { fmt::print("{}", completion(app, *shell)); });
}

}  // namespace attend::app
