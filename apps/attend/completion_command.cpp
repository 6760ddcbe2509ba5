#include "bash_completion.h"
#include "commands.h"

#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include <memory>

namespace attend::app {

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print a script that completes command lines");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "which shell the script is for")
      ->required()
      ->type_name("bash")
      ->check(CLI::IsMember({"bash"}).description(""));
  command->footer(
      "Examples:\n"
      "  source <(attend completion bash)  # in this shell; in ~/.bashrc for all to come");
  command->callback([&app, shell] { fmt::print("{}", bash_completion(app)); });
}

}  // namespace attend::app
