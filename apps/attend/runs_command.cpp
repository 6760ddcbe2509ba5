#include "attend/input_error.h"
#include "commands.h"
#include "error_message.h"
#include "help_formatter.h"
#include "io/parse_json.h"
#include "io/utf8.h"
#include "number_text.h"
#include "run_overview.h"
#include "table_text.h"
#include "terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct RunsArguments {
  std::string directory = "runs";
  bool json = false;
};

/// Returns "2026-11-25 23:16", or its first `length` characters.
std::string date_text(const RunOverview& run, std::size_t length) {
  auto text = printable(run.record.provenance.created).substr(0, length);
  std::replace(text.begin(), text.end(), 'T', ' ');
  return text;
}

std::vector<std::string> cells_of(const RunOverview& run, std::size_t date_length) {
  const auto name = printable(run.name);
  const auto state = std::string(to_string(run.state));
  if (run.state == RunState::damaged)
    return {name, "", date_text(run, date_length), "", "", "", state};
  return {name,
          run.is_custom ? "custom" : run.recipe.task,
          date_text(run, date_length),
          run.parameters ? count_text(static_cast<double>(*run.parameters)) : "",
          fmt::format("{}/{}", run.steps, run.recipe.training.max_steps),
          run.val_loss ? fmt::format("{:.4f}", *run.val_loss) : "",
          state};
}

/// Returns the table of the runs. If it has more than `width` columns, leaves out the times of day,
/// and then shortens the names of the runs in the middle.
std::string runs_table(const std::vector<RunOverview>& runs, std::size_t width) {
  constexpr std::size_t kDate = 10;
  constexpr std::size_t kDateAndTime = 16;
  constexpr std::size_t kMinName = 12;
  constexpr const char* kAlignment = "<<<>>><";
  std::vector<std::vector<std::string>> rows;
  for (const auto date_length : {kDateAndTime, kDate}) {
    rows = {{"run", "task", "created", "params", "steps", "val loss", "state"}};
    for (const auto& run : runs) rows.push_back(cells_of(run, date_length));
    auto text = table_text(rows, kAlignment);
    if (longest_line(text) <= width) return text;
  }
  std::size_t longest_name = 0;
  for (const auto& row : rows) longest_name = std::max(longest_name, row[0].size());
  const auto others = longest_line(table_text(rows, kAlignment)) - longest_name;
  const auto room = std::max(width - std::min(width, others), kMinName);
  for (auto& row : rows) row[0] = shorten_middle(row[0], room);
  return table_text(rows, kAlignment);
}

void print_runs(const RunsArguments& arguments) {
  const fs::path directory = arguments.directory;
  std::error_code missing;
  if (!fs::is_directory(directory, missing)) {
    throw InputError(fmt::format(
        "{}: no such directory: expected a directory with runs, such as runs/ after attend train",
        arguments.directory));
  }
  std::vector<RunOverview> runs;
  for (const auto& run : find_runs(directory)) runs.push_back(read_overview(run, directory));
  std::stable_sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return a.record.provenance.created < b.record.provenance.created;
  });
  if (arguments.json) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& run : runs) all.push_back(to_json(run));
    fmt::print("{}\n", json_text(all));
    return;
  }
  if (runs.empty()) {
    write_error(fmt::format("{}: contains no runs; attend train --out {} creates one\n",
                            printable(arguments.directory),
                            printable((directory / "NAME").string())));
    return;
  }
  const auto width = static_cast<std::size_t>(terminal_width(STDOUT_FILENO));
  fmt::print("{}", runs_table(runs, width));
  for (const auto& run : runs) {
    if (run.state == RunState::damaged)
      fmt::print("\n{}\n", wrap("damaged: " + without_control_codes(run.error), width, 2));
  }
}

}  // namespace

void add_runs_command(CLI::App& app) {
  auto* command = app.add_subcommand("runs", "List the runs in a directory, with their results");
  auto arguments = std::make_shared<RunsArguments>();
  command
      ->add_option("directory", arguments->directory,
                   "directory with runs, also in its subdirectories [runs]")
      ->type_name("DIR");
  command
      ->add_flag("--json", arguments->json, "print a JSON array with an object per run, all values")
      ->group("Output");
  command->footer(
      "The runs are listed in the order in which they were created (UTC), the newest last.\n"
      "val loss is the best validation loss.\n\n"
      "Examples:\n"
      "  attend runs\n"
      "  attend runs runs/sweep --json");
  command->callback([=] { print_runs(*arguments); });
}

}  // namespace attend::app
