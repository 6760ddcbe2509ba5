// attend: trains, evaluates and exports small transformers.

#include "attend/input_error.h"
#include "commands.h"
#include "help_formatter.h"
#include "interrupted.h"
#include "nearest_name.h"
#include "terminal.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

namespace {

enum ExitStatus { kDone = 0, kFailed = 1, kWrongInput = 2 };

int print_error(ExitStatus status, const std::string& message) {
  attend::app::write_error(fmt::format("attend: {}\n", message));
  return status;
}

std::string switch_takes_no_value(const std::string& name) {
  return fmt::format("--{0} takes no value; use --{0} or --no-{0}", name);
}

/// Throws InputError if the word true, false, on or off follows a flag that has a --no- form, as in
/// "--bias false". Such a flag takes no value, so CLI11 would parse the word as a positional
/// argument. If a file with this name exists, the word is accepted as a positional argument.
void check_switches(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands(
      [&](const CLI::App* each) { return argc > 1 && each->get_name() == argv[1]; });
  if (commands.empty()) return;
  const auto* command = commands.front();
  for (int i = 3; i < argc; ++i) {
    const std::string value = argv[i];
    const std::string previous = argv[i - 1];
    if ((value != "true" && value != "false" && value != "on" && value != "off") ||
        !previous.starts_with("--") || std::filesystem::exists(value)) {
      continue;
    }
    const auto name = previous.substr(previous.starts_with("--no-") ? 5 : 2);
    const auto* option = command->get_option_no_throw("--" + name);
    if (option != nullptr && option->get_items_expected_max() == 0 &&
        option->check_lname("no-" + name))
      throw attend::InputError(switch_takes_no_value(name));
  }
}

/// Returns the message for a command line error. If a subcommand or flag is unknown, the message
/// suggests the most similar valid name, unless all valid names are very different.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<std::string> commands;
  for (const auto* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const auto chosen = app.get_subcommands();
  const auto unexpected = app.remaining(/*recurse=*/true);
  if (chosen.empty() && unexpected.empty()) {
    return fmt::format("missing subcommand: expected one of {}", fmt::join(commands, ", "));
  }
  if (chosen.empty()) {
    return fmt::format("unknown subcommand '{}'{}", unexpected[0],
                       attend::did_you_mean(unexpected[0], commands));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
      std::string_view(error.what()).find("At Most 1") != std::string_view::npos) {
    const std::string text = error.what();
    return fmt::format("{}: given more than once", text.substr(0, text.find(':')));
  }
  constexpr std::string_view kFlagValue = " was given a disallowed flag override";
  if (const std::string text = error.what(); text.ends_with(kFlagValue)) {
    auto name = text.substr(0, text.size() - kFlagValue.size());
    if (name.starts_with("no-")) name.erase(0, 3);
    return switch_takes_no_value(name);
  }
  if (unexpected.empty()) return error.what();
  std::vector<std::string> flags;
  for (const auto* option : chosen[0]->get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return fmt::format("{}: unknown argument '{}'{}", chosen[0]->get_name(), unexpected[0],
                     attend::did_you_mean(unexpected[0].substr(0, unexpected[0].find('=')), flags));
}

}  // namespace

int main(int argc, char** argv) {
  attend::app::open_closed_streams();
  CLI::App app("Train, evaluate and export small transformers.");
  app.name("attend");
  app.formatter(std::make_shared<attend::app::HelpFormatter>(
      static_cast<std::size_t>(std::max(50, attend::app::terminal_width(STDOUT_FILENO)))));
  app.set_version_flag("--version", "attend " ATTEND_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  attend train --out runs/first\n"
      "  attend eval runs/first\n\n"
      "attend COMMAND --help prints the options of a subcommand.\n"
      "Exit status: 0 success; 1 runtime error; 2 invalid command line or input; 128+N stopped by\n"
      "signal N (attend train saves a checkpoint before it exits), 141 if standard output is a "
      "pipe\n"
      "that its reader closed (attend train finishes the run before it exits).");
  attend::app::add_train_command(app);
  attend::app::add_lr_find_command(app);
  attend::app::add_eval_command(app);
  attend::app::add_generate_command(app);
  attend::app::add_export_command(app);
  attend::app::add_tasks_command(app);
  attend::app::add_models_command(app);
  attend::app::add_inspect_command(app);
  attend::app::add_completion_command(app);

  try {
    try {
      check_switches(app, argc, argv);
      app.parse(argc, argv);
    } catch (const CLI::Success& help) {
      app.exit(help);  // prints the help
    }
    if (attend::app::flush_output()) return kDone;
    // A program whose output pipe is closed, as by `| head -1`, ends as if SIGPIPE had killed it.
    if (attend::app::output_pipe_is_closed()) return 128 + SIGPIPE;
    return print_error(kFailed, "standard output cannot be written");
  } catch (const attend::app::Interrupted& interrupted) {
    attend::app::flush_output();
    return 128 + interrupted.signal();
  } catch (const CLI::ParseError& error) {
    return print_error(kWrongInput, explain(app, error));
  } catch (const attend::InputError& error) {
    return print_error(kWrongInput, error.what());
  } catch (const c10::ValueError& error) {
    return print_error(kWrongInput, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return print_error(kFailed, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return print_error(kFailed, error.what());
  }
}
