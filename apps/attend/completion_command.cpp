#include "bash_completion.h"
#include "commands.h"

#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include <memory>

namespace attend::app {

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print a shell completion script");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "shell to complete for")
      ->required()
      ->type_name("bash")
      ->check(CLI::IsMember({"bash"}).description(""));
  command->footer(
      "Examples:\n"
      "  source <(attend completion bash)  # in the current shell, or in ~/.bashrc");
  command->callback([&app, shell] { fmt::print("{}", bash_completion(app)); });
}

}  // namespace attend::app
