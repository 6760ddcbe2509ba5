#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "commands.h"
#include "error_message.h"
#include "json_text.h"
#include "runs/run_overview.h"
#include "terminal/help_formatter.h"
#include "terminal/number_text.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

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

using Rows = std::vector<std::vector<std::string>>;

/// Returns the rows of the table, with a header. If `date_length` is 0, without the dates.
Rows rows_with_dates(const std::vector<RunOverview>& runs, std::size_t date_length) {
  constexpr std::ptrdiff_t kCreated = 2;
  Rows rows{{"run", "task", "created", "params", "steps", "val loss", "state"}};
  for (const auto& run : runs) rows.push_back(cells_of(run, date_length));
  if (date_length == 0) {
    for (auto& row : rows) row.erase(row.begin() + kCreated);
  }
  return rows;
}

std::string text_of(const Rows& rows) {
  return table_text(rows, rows[0].size() == 7 ? "<<<>>><" : "<<>>><");
}

/// Returns how long names may be in a table of `width` columns.
std::size_t room_for_names(const Rows& rows, std::size_t width) {
  constexpr std::size_t kMinName = 12;
  std::size_t longest_name = 0;
  for (const auto& row : rows) longest_name = std::max(longest_name, row[0].size());
  const auto others = longest_line(text_of(rows)) - longest_name;
  return std::max(width - std::min(width, others), kMinName);
}

/// Replaces the names by the results of `shorten`. Returns false, and does nothing, if two names
/// would be the same.
template <typename Shorten>
bool shorten_names(Rows& rows, const Shorten& shorten) {
  auto shortened = rows;
  std::set<std::string> names;
  for (auto row = shortened.begin() + 1; row != shortened.end(); ++row)
    names.insert((*row)[0] = shorten((*row)[0]));
  const bool differ = names.size() == rows.size() - 1;
  if (differ) rows = std::move(shortened);
  return differ;
}

/// Returns the parts of a name, each with the separator after it: "sweep/", "lr=0.1,", "bias=on".
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  while (!name.empty()) {
    const auto end = std::min(name.find_first_of("/,"), name.size() - 1) + 1;
    parts.emplace_back(name.substr(0, end));
    name.remove_prefix(end);
  }
  return parts;
}

/// Replaces parts that all names longer than `room` have in common by "...".
void leave_out_common_parts(Rows& rows, std::size_t room) {
  std::map<std::string, std::size_t> counts;  // of long names, by part
  std::size_t num_long = 0;
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    if ((*row)[0].size() <= room) continue;
    ++num_long;
    const auto parts = parts_of((*row)[0]);
    for (const auto& part : std::set(parts.begin(), parts.end())) ++counts[part];
  }
  shorten_names(rows, [&](const std::string& name) {
    if (name.size() <= room || num_long < 2) return name;
    std::string text;
    for (const auto& part : parts_of(name)) {
      if (counts[part] < num_long)
        text += part;
      else if (!text.ends_with("..."))
        text += "...";
    }
    return text;
  });
}

/// Returns the table of the runs. If it has more than `width` columns, leaves out the times of day,
/// and then the middle of long names. If two names would then be the same, leaves out the dates and
/// what the long names have in common instead.
std::string runs_table(const std::vector<RunOverview>& runs, std::size_t width) {
  constexpr std::size_t kDate = 10;
  constexpr std::size_t kDateAndTime = 16;
  const auto fits = [&](const Rows& rows) { return longest_line(text_of(rows)) <= width; };
  auto rows = rows_with_dates(runs, kDateAndTime);
  if (!fits(rows)) rows = rows_with_dates(runs, kDate);
  if (fits(rows)) return text_of(rows);
  const auto in_the_middle = [&](const Rows& table) {
    return [room = room_for_names(table, width)](const std::string& name) {
      return shorten_middle(name, room);
    };
  };
  if (shorten_names(rows, in_the_middle(rows))) return text_of(rows);
  rows = rows_with_dates(runs, 0);
  leave_out_common_parts(rows, room_for_names(rows, width));
  shorten_names(rows, in_the_middle(rows));
  return text_of(rows);
}

void print_runs(const RunsArguments& arguments) {
  const fs::path directory = arguments.directory;
  std::error_code missing;
  if (!fs::is_directory(directory, missing)) {
    const auto* reason = !missing                                  ? "not a directory"
                         : missing == std::errc::permission_denied ? "permission denied"
                                                                   : "no such directory";
    throw InputError(
        fmt::format("{}: {}: expected a directory with runs, such as runs/ after attend train",
                    arguments.directory, reason));
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
  // A program that reads the table finds whole names in it.
  fmt::print("{}", runs_table(runs, ::isatty(STDOUT_FILENO) == 1
                                        ? width
                                        : std::numeric_limits<std::size_t>::max()));
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
