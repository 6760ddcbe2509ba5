// attend: trains, evaluates and exports small transformers.

#include "attend/input_error.h"
#include "attend/version.h"
#include "commands.h"
#include "error_message.h"
#include "terminal/help_formatter.h"
#include "terminal/stop_signal.h"
#include "terminal/terminal.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

namespace {

enum ExitStatus { kDone = 0, kFailed = 1, kWrongInput = 2 };

/// Prints the message, unless it is empty because another process prints it.
int print_error(ExitStatus status, const std::string& message) {
  if (message.empty()) return status;
  attend::app::write_error(
      fmt::format("attend: {}\n", attend::app::without_control_codes(message)));
  return status;
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
      throw attend::InputError(attend::app::switch_takes_no_value(name));
  }
}

/// Ends the program with a message if the working directory does not exist. Otherwise, MKL would
/// end it with a message about a library, before `main` is called.
void check_working_directory() {
  std::array<char, PATH_MAX> directory{};
  if (::getcwd(directory.data(), directory.size()) != nullptr || errno != ENOENT) return;
  constexpr std::string_view kMessage =
      "attend: the working directory was deleted: change to a directory that exists\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(kWrongInput);
}

/// Functions in this section are called before the initialization of shared libraries such as MKL.
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)() = check_working_directory;

/// Returns the exit status.
int run(int argc, char** argv) {
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
  attend::app::add_predict_command(app);
  attend::app::add_embed_command(app);
  attend::app::add_generate_command(app);
  attend::app::add_export_command(app);
  attend::app::add_import_command(app);
  attend::app::add_tasks_command(app);
  attend::app::add_models_command(app);
  attend::app::add_inspect_command(app);
  attend::app::add_runs_command(app);
  attend::app::add_compare_command(app);
  attend::app::add_explain_command(app);
  attend::app::add_report_command(app);
  attend::app::add_serve_command(app);
  attend::app::add_bench_command(app);
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
    return print_error(kWrongInput, attend::app::parse_error_message(app, error));
  } catch (const std::exception& error) {
    return print_error(attend::app::is_wrong_input(error) ? kWrongInput : kFailed,
                       attend::app::error_message(app, error));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int status = run(argc, argv);
#ifndef ATTEND_COVERAGE  // counts are written by a function of exit
  // The destructors of the operators of LibTorch would take a third of the time of a short command.
  attend::app::flush_output();
  std::_Exit(status);
#endif
  return status;
}
