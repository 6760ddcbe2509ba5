// attend: train, measure, use and export small transformers.

#include "attend/support/input_error.h"
#include "attend/support/nearest_name.h"
#include "commands.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <c10/util/Exception.h>
#include <fmt/format.h>

namespace {

enum ExitStatus { kDone = 0, kFailed = 1, kWrongInput = 2 };

int complain(ExitStatus status, const std::string& message) {
  fmt::print(stderr, "attend: {}\n", message);
  return status;
}

/// "--layerz" becomes "; did you mean '--layers'?", if anything is near enough to guess.
std::string suggestion(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (const auto* sub : app.get_subcommands()) command = sub;
  std::vector<std::string> names;
  for (const auto* option : command->get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command == &app) names.push_back(sub->get_name());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string argument = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    const bool is_name = argument.starts_with("--") || command == &app;
    if (!is_name || std::find(names.begin(), names.end(), argument) != names.end()) continue;
    const auto nearest = attend::nearest_name(argument, names);
    if (attend::edit_distance(argument, nearest) <= 3) {
      return fmt::format("; did you mean '{}'?", nearest);
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("attend trains small transformers and shows what they learn.");
  app.name("attend");
  app.require_subcommand(1);
  app.footer(
      "attend COMMAND --help tells what a command takes.\n"
      "Exit status: 0 done, 1 failed while running, 2 wrong command or input.");
  attend::app::add_train_command(app);
  attend::app::add_eval_command(app);
  attend::app::add_generate_command(app);
  attend::app::add_export_command(app);

  try {
    app.parse(argc, argv);
    return kDone;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(kWrongInput, error.what() + suggestion(app, argc, argv));
  } catch (const attend::InputError& error) {
    return complain(kWrongInput, error.what());
  } catch (const c10::ValueError& error) {
    return complain(kWrongInput, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return complain(kFailed, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return complain(kFailed, error.what());
  }
}
