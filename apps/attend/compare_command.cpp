#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/train/loss_curves.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "recipes/overrides.h"
#include "report/comparison.h"
#include "report/comparison_page.h"
#include "report/encoding.h"
#include "runs/run_overview.h"
#include "terminal/help_formatter.h"
#include "terminal/loss_chart.h"
#include "terminal/number_text.h"
#include "terminal/output_file.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The marks of the runs in the table and in the chart.
constexpr std::string_view kMarks = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

constexpr const char* kOtherData =
    "The runs have different tasks, data or tokenizers, so their losses cannot be compared.";

struct CompareArguments {
  std::vector<std::string> paths;
  bool json = false;
  std::string html;
  bool overwrite = false;
};

/// Returns the runs in `paths` and below, each once. Throws InputError if a path contains no run,
/// if a run is damaged, and if there are too few or too many runs.
std::vector<RunOverview> read_runs(const std::vector<std::string>& paths) {
  std::vector<RunOverview> runs;
  std::set<fs::path> known;
  for (const auto& path : paths) {
    const auto found = find_runs(path);
    if (found.empty()) {
      throw InputError(
          fmt::format("{}: expected a run directory, or a directory with runs: it has "
                      "no {}, and none of its subdirectories has one",
                      path, train::RunFiles::recipe));
    }
    for (const auto& directory : found) {
      if (!known.insert(fs::weakly_canonical(directory)).second) continue;
      auto overview = read_overview(directory, path);
      if (overview.state == RunState::damaged)
        throw InputError(fmt::format("{}: damaged: {}", directory.string(), overview.error));
      runs.push_back(std::move(overview));
    }
  }
  if (runs.size() < 2 || runs.size() > kMarks.size()) {
    throw InputError(fmt::format("found {} run{}, expected 2 to {}: pass other directories",
                                 runs.size(), runs.size() == 1 ? "" : "s", kMarks.size()));
  }
  return runs;
}

/// Returns the character of a run, with a color if `colors` is set.
std::string mark_of(std::size_t index, bool colors) {
  constexpr std::array kColors{36, 33, 35, 32, 34, 31};
  const auto mark = std::string(1, kMarks[index]);
  return colors ? fmt::format("\x1b[1;{}m{}\x1b[0m", kColors[index % kColors.size()], mark) : mark;
}

/// Returns the rows of the table: marks of the runs, values that differ, and results.
std::vector<Cells> rows_of(const std::vector<RunOverview>& runs, bool same_data) {
  constexpr std::size_t kMaxValue = 20;
  std::vector<Cells> rows{{""}};
  for (std::size_t i = 0; i < runs.size(); ++i) rows[0].push_back(mark_of(i, false));
  for (const auto& option : option_rows(runs)) {
    rows.push_back({printable(option[0])});
    for (std::size_t i = 1; i < option.size(); ++i)
      rows.back().push_back(shorten_middle(printable(option[i]), kMaxValue));
  }
  const auto results = result_rows(runs, same_data);
  rows.insert(rows.end(), results.begin(), results.end());
  // The values end in the same column as results with and without a star.
  for (auto& row : rows) {
    for (std::size_t i = 1; i < row.size(); ++i) {
      if (!row[i].ends_with(kBestMark)) row[i] += std::string(std::strlen(kBestMark), ' ');
    }
  }
  return rows;
}

/// Returns a table of at most `width` columns. If the runs do not fit beside each other, the table
/// consists of several tables, one below the other, with the first column in each.
std::string table_of(const std::vector<std::vector<std::string>>& rows, std::size_t width,
                     bool colors) {
  std::string text;
  const auto count = rows[0].size();
  for (std::size_t begin = 1; begin < count;) {
    std::string fitting;
    auto end = begin + 1;
    for (auto next = end; next <= count; ++next) {
      std::vector<std::vector<std::string>> part;
      for (const auto& row : rows) {
        part.push_back({row[0]});
        part.back().insert(part.back().end(), row.begin() + static_cast<std::ptrdiff_t>(begin),
                           row.begin() + static_cast<std::ptrdiff_t>(next));
      }
      if (!fitting.empty() && longest_line(table_text(part, "<>")) > width) break;
      fitting = table_text(part, "<>", [&](auto row, auto column, auto cell) {
        if (row > 0 || column == 0) return cell;
        const auto mark = mark_of(begin + column - 2, false);
        return cell.replace(cell.find(mark), 1, mark_of(begin + column - 2, colors));
      });
      end = next;
    }
    text += (text.empty() ? "" : "\n") + fitting;
    begin = end;
  }
  return text;
}

/// Reads the losses of the runs. Warns of damaged lines.
std::vector<train::LossCurves> curves_of(const std::vector<RunOverview>& runs) {
  std::vector<train::LossCurves> curves;
  for (const auto& run : runs) {
    const auto path = run.directory / train::RunFiles::metrics;
    curves.push_back(train::read_loss_curves(path));
    if (curves.back().damaged > 0)
      fmt::print(stderr, "attend: {}: damaged lines are left out: {}\n", printable(path.string()),
                 curves.back().damaged);
  }
  return curves;
}

/// Returns the curves as a chart with a heading. The curves are the validation losses if each run
/// has at least two of them, otherwise the losses of training steps.
std::string chart_of(const std::vector<train::LossCurves>& curves, std::size_t width, bool colors) {
  const bool has_val = std::all_of(curves.begin(), curves.end(),
                                   [](const auto& each) { return each.val.size() > 1; });
  std::vector<ChartCurve> shown;
  for (std::size_t i = 0; i < curves.size(); ++i)
    shown.push_back({mark_of(i, colors), has_val ? curves[i].val : curves[i].train});
  const auto chart = loss_chart(shown, width);
  return chart.empty() ? ""
                       : fmt::format("\n{} loss by step\n{}", has_val ? "val" : "train", chart);
}

ordered_json points_json(const std::vector<train::LossPoint>& points) {
  auto json = ordered_json::array();
  for (const auto& point : points) json.push_back({point.step, point.loss});
  return json;
}

/// Returns the values of `keys` in the recipe, as numbers where they are numbers.
ordered_json values_json(const RunOverview& run, const std::vector<std::string>& keys) {
  auto json = ordered_json::object();
  for (const auto& key : keys) {
    if (run.values.contains(key)) json[key] = run.values.at(key);
  }
  for (const auto& field : train::recipe_fields()) {
    if (json.contains(field.key)) set_value(field, train::field_value(field, run.recipe), json);
  }
  return json;
}

ordered_json json_of(const std::vector<RunOverview>& runs, bool same_data) {
  const auto keys = differing_keys(runs);
  ordered_json json{{"runs", ordered_json::array()}, {"differing", keys}};
  const auto curves = curves_of(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto object = to_json(runs[i]);
    object["values"] = values_json(runs[i], keys);
    object["train_losses"] = points_json(curves[i].train);
    object["val_losses"] = points_json(curves[i].val);
    json["runs"].push_back(std::move(object));
  }
  auto& best = json["best"] = ordered_json::object();
  for (const auto& [key, index] : best_runs(runs, same_data))
    best[key] = runs[index].directory.string();
  json["same_data"] = same_data;
  return json;
}

/// Writes the comparison as a page.
void write_page(const std::vector<RunOverview>& runs, bool same_data,
                const CompareArguments& arguments) {
  Comparison comparison{.runs = {},
                        .options = option_rows(runs),
                        .results = result_rows(runs, same_data),
                        .note = same_data ? "" : kOtherData};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    check_output_file("--html", arguments.html, run.directory, arguments.overwrite);
    const auto name = shortened(name_of_run(run.directory), kMaxLabel);
    comparison.runs.push_back(run);
    comparison.runs.back().name = fmt::format("{} {}", kMarks[i], name);
  }
  replace_file(arguments.html, comparison_page(comparison));
  fmt::print("{}: {}\n", printable(arguments.html),
             bytes_text(static_cast<double>(fs::file_size(arguments.html))));
}

void compare(const CompareArguments& arguments, bool has_html) {
  constexpr int kMinWidth = 40;
  if (has_html && arguments.json)
    refuse_without_effect("--json", "beside --html, which prints no results", "remove --html");
  if (arguments.overwrite && !has_html)
    refuse_without_effect("--overwrite", "without --html", "add --html FILE");
  const auto runs = read_runs(arguments.paths);
  const bool same_data = have_same_data(runs);
  if (has_html) {
    write_page(runs, same_data, arguments);
    return;
  }
  if (arguments.json) {
    fmt::print("{}\n", json_text(json_of(runs, same_data)));
    return;
  }
  const auto width = static_cast<std::size_t>(std::max(terminal_width(STDOUT_FILENO), kMinWidth));
  const bool colors = output_has_colors();
  const auto curves = curves_of(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    const auto state =
        run.state == RunState::finished ? "" : fmt::format(" ({})", to_string(run.state));
    fmt::print("{}  {}{}\n", mark_of(i, colors), printable(run.directory.string()), state);
  }
  fmt::print("\n{}", table_of(rows_of(runs, same_data), width, colors));
  if (!same_data) {
    fmt::print("\n{}\n", wrap(kOtherData, width, 0));
  }
  fmt::print("{}", chart_of(curves, width, colors));
}

}  // namespace

void add_compare_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("compare", "Compare runs: options that differ, results, loss curves");
  auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option("runs", arguments->paths,
                   "run directories, or directories with runs, such as the directory of a sweep")
      ->required()
      ->type_name("DIR");
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object with the results, the values that differ and all losses")
      ->group("Output");
  auto* html = command
                   ->add_option("--html", arguments->html,
                                "write the comparison as a page for a browser, with the curves of "
                                "all runs, instead of printing it")
                   ->type_name("FILE")
                   ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file of --html")
      ->group("Output");
  command->footer(
      "* marks the best value of a row. Losses and accuracies are not marked if the runs\n"
      "have different tasks, data or tokenizers.\n\n"
      "Examples:\n"
      "  attend compare runs/first runs/deep\n"
      "  attend compare runs/sweep\n"
      "  attend compare runs/sweep --html sweep.html");
  command->callback([=] { compare(*arguments, html->count() > 0); });
}

}  // namespace attend::app
