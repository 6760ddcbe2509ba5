#include "runs/sweep.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/train/device.h"
#include "error_message.h"
#include "json_text.h"
#include "recipes/overrides.h"
#include "recipes/recipe_files.h"
#include "runs/train_run.h"
#include "terminal/activity.h"
#include "terminal/stop_signal.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Name of the file with the results of a sweep.
constexpr const char* kResultsFile = "sweep.json";

/// A combination of values.
struct Combination {
  std::string name;                 ///< of its run directory: "lr=0.001,num_layers=2"
  std::vector<std::string> values;  ///< values as text, in the order of the axes
  ordered_json json;                ///< values by key
  train::Recipe recipe;
  fs::path directory;
  bool is_complete = false;  ///< as `app::is_complete`
  std::string error;         ///< message of a failed training; else empty
  std::string source;        ///< the settings as typed, for messages
};

/// Returns each choice of one setting per axis. The last axis varies fastest.
std::vector<std::vector<Setting>> product_of(const std::vector<std::vector<Setting>>& axes) {
  std::vector<std::vector<Setting>> product{{}};
  for (const auto& axis : axes) {
    std::vector<std::vector<Setting>> longer;
    for (const auto& chosen : product) {
      for (const auto& setting : axis) {
        longer.push_back(chosen);
        longer.back().push_back(setting);
      }
    }
    product = std::move(longer);
  }
  return product;
}

Combination make_combination(const Sweep& sweep, const std::vector<Setting>& settings) {
  Combination made;
  made.recipe = sweep.resolve(settings);
  made.json = ordered_json::object();
  std::vector<std::string> parts;
  for (const auto& setting : settings) {
    const auto& field = setting.field.get();
    made.values.push_back(train::value_text(field, made.recipe));
    parts.push_back(fmt::format("{}={}", field.key, made.values.back()));
    set_value(field, train::field_value(field, made.recipe), made.json);
  }
  made.name = fmt::format("{}", fmt::join(parts, ","));
  if (made.name.find('/') != std::string::npos) {
    throw InputError(
        fmt::format("the run directory '{}' would contain '/', which a directory name cannot: pass "
                    "a value without '/', such as a file in the working directory",
                    made.name));
  }
  made.directory = sweep.out / made.name;
  make_paths_absolute(made.recipe);
  return made;
}

/// Throws InputError if the run of the combination can be neither created nor resumed, or was
/// created with other values, since its results would not be those of the combination. Finds out if
/// the run is complete.
void check_combination(const Sweep& sweep, Combination& combination) {
  const auto& directory = combination.directory;
  const auto& recipe = combination.recipe;
  const Activity activity(kPreparingData);
  if (train::RunDirectory::exists(directory)) {
    train::RunDirectory::open(directory).check_same_values(recipe);
    combination.is_complete =
        is_complete(train::make_training_run(directory, recipe, sweep.options));
  } else {
    train::RunDirectory::check_can_create(directory);
    train::make_training_setup(recipe, sweep.options.init_from, sweep.options.task_maker);
  }
}

/// Throws InputError if sweep.json in `out` contains the results of other runs than `names`, since
/// these results would be lost.
void check_results(const fs::path& out, const std::set<std::string>& names) {
  const auto path = out / kResultsFile;
  if (!fs::exists(path)) return;
  with_source(path.string(), [&] {
    try {
      const auto results = parse_json(read_bytes(path));
      for (const auto& each : results.at("combinations")) {
        const auto run = each.at("run").get<std::string>();
        if (names.contains(run)) continue;
        throw InputError(
            fmt::format("the result of another sweep, with the run {}, expected only runs of this "
                        "sweep, such as {}: pass another --out",
                        printable(run), *names.begin()));
      }
    } catch (const nlohmann::json::exception& error) {
      throw InputError(
          fmt::format("not the result of a sweep: {}: pass another --out", error_text(error)));
    }
  });
}

/// Returns all combinations. Checks all recipes before the first run directory is opened, since
/// opening a run to resume it writes its recipe.
std::vector<Combination> make_combinations(const Sweep& sweep) {
  std::vector<Combination> combinations;
  std::set<std::string> names;
  for (const auto& settings : product_of(sweep.axes)) {
    std::vector<std::string> given;
    for (const auto& setting : settings) given.push_back(setting.name);
    const auto source = fmt::format("{}", fmt::join(given, " "));
    with_source(source, [&] {
      combinations.push_back(make_combination(sweep, settings));
      combinations.back().source = source;
      if (!names.insert(combinations.back().name).second)
        throw InputError(
            fmt::format("found {} twice, expected different combinations: remove one "
                        "of the equal values",
                        combinations.back().name));
    });
  }
  check_results(sweep.out, names);
  for (auto& combination : combinations)
    with_source(combination.source, [&] { check_combination(sweep, combination); });
  return combinations;
}

void train_combination(const Sweep& sweep, Combination& combination) {
  try {
    train::set_num_threads(combination.recipe.training.threads);
    sweep.train([&] {
      const Activity activity(kPreparingData);
      return train::make_training_run(combination.directory, combination.recipe, sweep.options);
    }());
  } catch (const Interrupted&) {
    write_error("to continue the sweep, run the same command again\n");
    throw;
  } catch (const std::runtime_error& error) {  // such as a loss that is not finite
    combination.error = error.what();
    write_error(without_control_codes(fmt::format("{}: {}", combination.name, error.what())) +
                "\n");
  }
  // A signal after the last step does not stop the run, but the sweep.
  if (StopSignal::received() != 0) throw Interrupted(StopSignal::received());
}

/// Returns the results of the combination as in sweep.json.
ordered_json results_of(const Combination& combination) {
  ordered_json results{{"run", combination.name}, {"values", combination.json}};
  if (!combination.error.empty()) {
    results["error"] = combination.error;
  } else if (const auto summary = train::RunDirectory::open(combination.directory).summary()) {
    results["val_loss"] = summary->val_loss;
    if (summary->val_accuracy) results["val_accuracy"] = *summary->val_accuracy;
    results["seconds"] = summary->seconds;
  } else {
    results["error"] = "no finite validation loss";
  }
  return results;
}

/// Returns the index of the results with the lowest validation loss; the number of results if all
/// trainings failed.
std::size_t index_of_best(const std::vector<ordered_json>& results) {
  auto best = results.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].contains("val_loss")) continue;
    if (best == results.size() || results[i]["val_loss"] < results[best]["val_loss"]) best = i;
  }
  return best;
}

std::vector<std::string> cells_of(const Combination& combination, const ordered_json& results) {
  auto cells = combination.values;
  for (auto& cell : cells) cell = printable(cell);
  const auto number = [&](const char* key, double factor, const char* format) {
    return results.contains(key)
               ? fmt::format(fmt::runtime(format), results[key].get<double>() * factor)
               : std::string();
  };
  cells.push_back(results.contains("error") ? "failed" : number("val_loss", 1, "{:.4f}"));
  cells.push_back(number("val_accuracy", 100, "{:.1f}%"));
  cells.push_back(number("seconds", 1, "{:.1f}"));
  return cells;
}

}  // namespace

std::vector<Setting> parse_sweep(const std::string& text) {
  const auto [key, values] = split_assignment("--sweep", text);
  const auto& field = find_field("--sweep", key);
  std::vector<Setting> settings;
  std::istringstream rest(values + ",");
  for (std::string value; std::getline(rest, value, ',');) {
    settings.push_back(parse_setting(field, fmt::format("--sweep {}={}", key, value), value));
  }
  return settings;
}

void run_sweep(const Sweep& sweep) {
  auto combinations = make_combinations(sweep);
  std::error_code error;
  fs::create_directories(sweep.out, error);
  if (error) {
    throw InputError(fmt::format("{} cannot be created: {}", sweep.out.string(), error.message()));
  }
  for (std::size_t i = 0; i < combinations.size(); ++i) {
    auto& combination = combinations[i];
    fmt::print("{}[{}/{}] {}{}\n", i == 0 ? "" : "\n", i + 1, combinations.size(),
               printable(combination.name), combination.is_complete ? ": finished" : "");
    if (!combination.is_complete) train_combination(sweep, combination);
  }

  std::vector<ordered_json> results;
  for (const auto& combination : combinations) results.push_back(results_of(combination));
  const auto best = index_of_best(results);
  const bool has_best = best < results.size();
  std::vector<std::vector<std::string>> rows{{}};
  for (const auto& axis : sweep.axes) rows[0].emplace_back(axis.front().field.get().key);
  rows[0].insert(rows[0].end(), {"val loss", "accuracy", "seconds", ""});
  for (std::size_t i = 0; i < results.size(); ++i) {
    rows.push_back(cells_of(combinations[i], results[i]));
    rows.back().emplace_back(i == best ? "best" : "");
  }
  const auto accuracy = static_cast<std::ptrdiff_t>(sweep.axes.size()) + 1;
  const bool has_accuracy = std::any_of(results.begin(), results.end(), [](const auto& each) {
    return each.contains("val_accuracy");
  });
  if (!has_accuracy) {
    for (auto& row : rows) row.erase(row.begin() + accuracy);
  }
  fmt::print("\n{}", table_text(rows, "<"));

  ordered_json json{{"best", nullptr}, {"combinations", results}};
  if (has_best) json["best"] = results[best]["run"];
  replace_file(sweep.out / kResultsFile, json_text(json, 2) + "\n");
  const auto failed = std::count_if(results.begin(), results.end(),
                                    [](const auto& each) { return each.contains("error"); });
  if (failed > 0) {
    throw std::runtime_error(fmt::format("the training of {} of {} combinations failed; see {}",
                                         failed, results.size(),
                                         (sweep.out / kResultsFile).string()));
  }
}

}  // namespace attend::app
