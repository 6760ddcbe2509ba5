#include "attend/train/device.h"
#include "attend/train/run_directory.h"
#include "commands.h"
#include "serve/page_server.h"
#include "serve/server_option.h"
#include "terminal/stop_signal.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace attend::app {
namespace {

struct ServeArguments {
  std::string directory;
  ServerAddress address;
};

void run_serve(const ServeArguments& arguments) {
  train::RunDirectory::open(arguments.directory);  // throws if the directory is not a run
  train::set_num_threads(1);                       // another process may be training the run
  const StopSignal signals;
  PageServer server(arguments.address);
  print_now(report_line("page", server.url()));
  server.serve(arguments.directory, [] {
    while (StopSignal::received() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // The process ends even if a client or a computation keeps the server open.
    std::thread([] {
      std::this_thread::sleep_for(kMaxStop);
      std::_Exit(128 + StopSignal::received());
    }).detach();
  });
  throw Interrupted(StopSignal::received());
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto* command = app.add_subcommand("serve", "Show a run in a browser, also while it is trained");
  auto arguments = std::make_shared<ServeArguments>();
  command->add_option("run", arguments->directory, "run directory")->required()->type_name("DIR");
  const auto read_port = [=](const std::string& text) {
    arguments->address.port = parse_port("port", text);
  };
  command->add_option_function<std::string>("port", read_port, "port of the page; 0 = any free one")
      ->type_name("PORT")
      ->default_str(std::to_string(arguments->address.port));
  add_host(*command, arguments->address.host);
  command->footer(
      "The page is that of attend report. It follows the run if a process trains it, and explains\n"
      "how the model processes a sentence. Ctrl-C stops the server.\n\n"
      "Examples:\n"
      "  attend serve runs/first\n"
      "  attend serve runs/first 0");
  command->callback([=] { run_serve(*arguments); });
}

}  // namespace attend::app
