#include "attend/input_error.h"
#include "attend/train/run_directory.h"
#include "commands.h"
#include "help_formatter.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "io/utf8.h"
#include "loss_chart.h"
#include "number_text.h"
#include "options.h"
#include "output_file.h"
#include "overrides.h"
#include "report/comparison_page.h"
#include "report/encoding.h"
#include "run_overview.h"
#include "table_text.h"
#include "terminal.h"
#include "train/loss_curves.h"
#include "train/recipe_fields.h"
#include "train/run_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The marks of the runs in the table and in the chart.
constexpr std::string_view kMarks = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Marks the best result.
const std::string kStar = " *";

constexpr const char* kOtherData =
    "The runs have different tasks, data or tokenizers, so their losses cannot be compared.";

struct CompareArguments {
  std::vector<std::string> paths;
  bool json = false;
  std::string html;
  bool overwrite = false;
};

/// A run that is compared.
struct Compared {
  RunOverview overview;
  train::LossCurves curves;
};

/// A result in the table.
struct Result {
  enum class Best { none, lowest, highest };

  const char* label;
  const char* key;  ///< as in summary.json
  Best best;        ///< which value is marked
  bool is_metric;   ///< depends on the data, so that only values for the same data are compared
  std::optional<double> (*value)(const RunOverview& run);
  std::string (*text)(double value);
};

std::string four_decimals(double value) {
  return fmt::format("{:.4f}", value);
}

constexpr std::array kResults{
    Result{"steps", "steps", Result::Best::none, false,
           [](const RunOverview& run) { return std::optional(static_cast<double>(run.steps)); },
           [](double value) { return fmt::format("{:.0f}", value); }},
    Result{"train loss", "train_loss", Result::Best::lowest, true,
           [](const RunOverview& run) { return run.train_loss; }, four_decimals},
    Result{"val loss", "val_loss", Result::Best::lowest, true,
           [](const RunOverview& run) { return run.val_loss; }, four_decimals},
    Result{"accuracy", "val_accuracy", Result::Best::highest, true,
           [](const RunOverview& run) { return run.val_accuracy; },
           [](double value) { return fmt::format("{:.1f}%", value * 100); }},
    Result{"parameters", "parameters", Result::Best::none, false,
           [](const RunOverview& run) {
             return run.parameters ? std::optional(static_cast<double>(*run.parameters))
                                   : std::nullopt;
           },
           count_text},
    Result{"seconds", "seconds", Result::Best::lowest, false,
           [](const RunOverview& run) { return run.seconds; },
           [](double value) { return fmt::format("{:.1f}", value); }},
    Result{"tok/s", "tokens_per_second", Result::Best::highest, false,
           [](const RunOverview& run) { return run.tokens_per_second; },
           [](double value) { return count_text(std::round(value)); }},
};

/// Returns the runs in `paths` and below, each once. Throws InputError if a path contains no run,
/// if a run is damaged, and if there are too few or too many runs.
std::vector<Compared> read_runs(const std::vector<std::string>& paths) {
  std::vector<Compared> runs;
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
      runs.push_back(
          {std::move(overview), train::read_loss_curves(directory / train::RunFiles::metrics)});
    }
  }
  if (runs.size() < 2 || runs.size() > kMarks.size()) {
    throw InputError(fmt::format("found {} run{}, expected 2 to {}: pass other directories",
                                 runs.size(), runs.size() == 1 ? "" : "s", kMarks.size()));
  }
  return runs;
}

/// Returns the value of a key of the recipe as text; empty if the run has no such value.
std::string value_of(const RunOverview& run, const std::string& key) {
  const auto found = run.values.find(key);
  return found == run.values.end() ? std::string() : found->second;
}

/// Returns the keys whose values differ.
std::vector<std::string> differing_keys(const std::vector<Compared>& runs) {
  std::set<std::string> keys;
  const auto& first = runs.front().overview;
  for (const auto& run : runs) {
    for (const auto& each : train::differing_keys(first.values, run.overview.values))
      keys.insert(each);
  }
  return {keys.begin(), keys.end()};
}

/// Returns the checksums of the tokenizer's files.
std::map<std::string, std::string> tokenizer_files(const train::RunRecord& record) {
  auto files = record.files;
  files.erase(train::RunFiles::recipe);
  return files;
}

/// True if the losses of all runs are means over the same targets: the runs have the same data and
/// the same tokenizer.
bool have_same_data(const std::vector<Compared>& runs) {
  const auto& first = runs.front().overview;
  return std::all_of(runs.begin(), runs.end(), [&](const auto& run) {
    const auto& other = run.overview;
    return other.record.data_checksum == first.record.data_checksum &&
           tokenizer_files(other.record) == tokenizer_files(first.record) &&
           value_of(other, "task") == value_of(first, "task");
  });
}

/// Returns the index of the best run; the number of runs if none is better than another.
std::size_t index_of_best(const std::vector<Compared>& runs, const Result& result, bool same_data) {
  if (result.best == Result::Best::none || (result.is_metric && !same_data)) return runs.size();
  const double sign = result.best == Result::Best::lowest ? 1.0 : -1.0;
  auto best = runs.size();
  std::set<double> values;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto value = result.value(runs[i].overview);
    if (!value) continue;
    if (values.empty() || sign * *value < *values.begin()) best = i;
    values.insert(sign * *value);
  }
  return values.size() > 1 ? best : runs.size();
}

/// Returns the character of a run, with a color if `colors` is set.
std::string mark_of(std::size_t index, bool colors) {
  constexpr std::array kColors{36, 33, 35, 32, 34, 31};
  const auto mark = std::string(1, kMarks[index]);
  return colors ? fmt::format("\x1b[1;{}m{}\x1b[0m", kColors[index % kColors.size()], mark) : mark;
}

/// Returns a row for each option that differs: its key, and its value in each run.
std::vector<Cells> option_rows(const std::vector<Compared>& runs) {
  std::vector<Cells> rows;
  for (const auto& key : differing_keys(runs)) {
    rows.push_back({key});
    for (const auto& run : runs) {
      const auto value = value_of(run.overview, key);
      rows.back().push_back(value.empty() ? "-" : value);
    }
  }
  return rows;
}

/// Returns a row for each result: its name, and its value in each run. The best has a star.
std::vector<Cells> result_rows(const std::vector<Compared>& runs, bool same_data) {
  std::vector<Cells> rows;
  for (const auto& result : kResults) {
    const auto has_value = [&](const auto& run) { return result.value(run.overview).has_value(); };
    if (std::none_of(runs.begin(), runs.end(), has_value)) continue;
    const auto best = index_of_best(runs, result, same_data);
    rows.push_back({result.label});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto value = result.value(runs[i].overview);
      rows.back().push_back((value ? result.text(*value) : "-") + (i == best ? kStar : ""));
    }
  }
  return rows;
}

/// Returns the rows of the table: marks of the runs, values that differ, and results.
std::vector<Cells> rows_of(const std::vector<Compared>& runs, bool same_data) {
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
      if (!row[i].ends_with(kStar)) row[i] += std::string(kStar.size(), ' ');
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

/// Returns the curves as a chart with a heading. The curves are the validation losses if each run
/// has at least two of them, otherwise the losses of training steps.
std::string chart_of(const std::vector<Compared>& runs, std::size_t width, bool colors) {
  const bool has_val = std::all_of(runs.begin(), runs.end(),
                                   [](const auto& run) { return run.curves.val.size() > 1; });
  std::vector<ChartCurve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({mark_of(i, colors), has_val ? runs[i].curves.val : runs[i].curves.train});
  }
  const auto chart = loss_chart(curves, width);
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

ordered_json json_of(const std::vector<Compared>& runs, bool same_data) {
  const auto keys = differing_keys(runs);
  ordered_json json{{"runs", ordered_json::array()}, {"differing", keys}};
  for (const auto& run : runs) {
    auto object = to_json(run.overview);
    object["values"] = values_json(run.overview, keys);
    object["train_losses"] = points_json(run.curves.train);
    object["val_losses"] = points_json(run.curves.val);
    json["runs"].push_back(std::move(object));
  }
  auto& best = json["best"] = ordered_json::object();
  for (const auto& result : kResults) {
    const auto index = index_of_best(runs, result, same_data);
    if (index < runs.size()) best[result.key] = runs[index].overview.directory.string();
  }
  json["same_data"] = same_data;
  return json;
}

/// Writes the comparison as a page.
void write_page(const std::vector<Compared>& runs, bool same_data,
                const CompareArguments& arguments) {
  Comparison comparison{.runs = {},
                        .options = option_rows(runs),
                        .results = result_rows(runs, same_data),
                        .note = same_data ? "" : kOtherData};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i].overview;
    check_output_file("--html", arguments.html, run.directory, arguments.overwrite);
    const auto name = shortened(name_of_run(run.directory), kMaxLabel);
    comparison.runs.push_back({fmt::format("{} {}", kMarks[i], name), run.directory, run.state});
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
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i].overview;
    const auto state =
        run.state == RunState::finished ? "" : fmt::format(" ({})", to_string(run.state));
    fmt::print("{}  {}{}\n", mark_of(i, colors), printable(run.directory.string()), state);
  }
  fmt::print("\n{}", table_of(rows_of(runs, same_data), width, colors));
  if (!same_data) {
    fmt::print("\n{}\n", wrap(kOtherData, width, 0));
  }
  fmt::print("{}", chart_of(runs, width, colors));
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
