#include "runs/inspect_run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/tensor_info.h"
#include "attend/io/utf8.h"
#include "attend/models/flops.h"
#include "attend/train/checksum.h"
#include "attend/train/loss_curves.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "json_text.h"
#include "recipes/overrides.h"
#include "runs/evaluation_text.h"
#include "runs/run_overview.h"
#include "terminal/loss_chart.h"
#include "terminal/number_text.h"
#include "terminal/shell_text.h"
#include "terminal/table_text.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <utility>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxReport = std::size_t{16} << 20;
using nlohmann::ordered_json;

/// Adds the values of a recipe to `config`, by section and key. If `only_section` is not null, adds
/// only the values of that section.
void add_values(const train::Recipe& recipe, const char* only_section, ordered_json& config) {
  for (const auto& field : train::recipe_fields()) {
    const std::string section = field.section;
    if (only_section != nullptr && section != only_section) continue;
    set_value(field, train::field_value(field, recipe), section.empty() ? config : config[section]);
  }
}

/// Adds the values of `recipe` that differ from `defaults` to the header of `report` and to its
/// JSON. If no value differs, the header contains "none" and `source_of_defaults`, for
/// example "none (defaults of the task)".
void add_overrides(const train::Recipe& recipe, const train::Recipe& defaults,
                   const char* source_of_defaults, InspectReport& report) {
  auto overrides = overrides_of(recipe, defaults);
  std::string label = "overrides";
  for (const auto& field : train::recipe_fields()) {
    if (!overrides.contains(field.key)) continue;
    report.header += report_line(
        label, fmt::format("{} = {} (default {})", field.key, train::value_text(field, recipe),
                           train::value_text(field, defaults)));
    label.clear();
  }
  if (overrides.empty())
    report.header += report_line("overrides", fmt::format("none ({})", source_of_defaults));
  report.json["overrides"] = std::move(overrides);
}

void add_config(const train::Recipe& recipe, InspectReport& report) {
  report.header += report_line("task", recipe.task);
  for (const auto& field : train::recipe_fields()) {
    if (!field.is_paths()) continue;
    const auto paths = std::get<std::vector<std::string>>(train::field_value(field, recipe));
    std::string label = field.key;
    for (const auto& path : paths)
      report.header += report_line(std::exchange(label, ""), printable(path));
  }
  report.header += report_line(
      "model", fmt::format("{}, max_seq_len {}", model_kind(recipe.model), recipe.max_seq_len()));
  report.json["task"] = recipe.task;
  auto& config = report.json["config"];
  config["model"]["kind"] = std::string(model_kind(recipe.model));
  add_values(recipe, nullptr, config);
  add_overrides(recipe, train::find_task(recipe.task).defaults, "defaults of the task", report);
}

/// Adds to `report` the configuration of a run that trains a custom module.
void add_custom_config(const train::CustomConfig& custom, InspectReport& report) {
  report.header += report_line("model", "custom module");
  std::string label = "values";
  for (const auto& [key, value] : custom.values) {
    report.header += report_line(label, printable(key) + " = " + printable(value));
    label.clear();
  }
  train::Recipe recipe;
  recipe.training = custom.training;
  auto& config = report.json["config"];
  add_values(recipe, "training", config);
  config["values"] = custom.values;
  add_overrides(recipe, train::Recipe{}, "defaults of TrainingConfig", report);
}

/// Adds when, by which command and on which machine the run was created.
void add_provenance(const train::RunRecord& record, InspectReport& report) {
  const auto& provenance = record.provenance;
  report.header += report_line("run_id", printable(record.run_id));
  report.header += report_line(
      "created",
      fmt::format("{} by attend {}", printable(provenance.created), printable(provenance.version)));
  report.header += report_line("command", command_text(provenance.command));
  const auto cpu = provenance.cpu.empty() ? "" : printable(provenance.cpu) + ", ";
  report.header += report_line(
      "machine", fmt::format("{}{} CPUs, {}", cpu, provenance.num_cpus, printable(provenance.os)));
  report.json["run_id"] = record.run_id;
  if (!record.init_from.empty()) {
    report.header += report_line("init from", "run_id " + printable(record.init_from));
    report.json["init_from"] = record.init_from;
  }
  if (record.base) {
    report.header +=
        report_line("base", fmt::format("{}, checksum {}", printable(record.base->path),
                                        printable(record.base->checksum)));
    report.json["base"] = {{"path", record.base->path}, {"checksum", record.base->checksum}};
  }
  report.json["provenance"] = ordered_json::parse(train::to_json(provenance));
}

/// Adds the results of training.
void add_summary(const train::RunSummary& summary, const char* name_of_f1, InspectReport& report) {
  report.header += report_line(
      "trained", fmt::format("{} steps, {:.1f} s, {} tok/s", summary.steps, summary.seconds,
                             count_text(std::round(summary.tokens_per_second))));
  report.header += report_line("threads", fmt::format("{}", summary.threads));
  report.header += report_line("train loss", fmt::format("{:.4f}", summary.train_loss));
  report.header += report_line(
      "val loss", fmt::format("{:.4f} (best, step {})", summary.val_loss, summary.best_step));
  if (summary.val_accuracy)
    report.header += report_line("accuracy", fmt::format("{:.1f}%", *summary.val_accuracy * 100));
  if (summary.val_f1)
    report.header += report_line(name_of_f1, fmt::format("{:.4f}", *summary.val_f1));
  report.json["summary"] = ordered_json::parse(train::to_json(summary));
}

/// Adds the course of the loss from metrics.jsonl.
void add_losses(const fs::path& metrics, InspectReport& report) {
  const auto label = report_line("", "").size() - 1;
  const auto width = static_cast<std::size_t>(terminal_width(STDOUT_FILENO));
  const auto line =
      loss_line(train::read_loss_curves(metrics), width - std::min(width, label), locale_is_utf8());
  if (!line.empty()) report.header += report_line("losses", line);
}

/// Adds the names, shapes and dtypes of the tensors of a custom module.
void add_tensors(const fs::path& directory, train::Weights weights, InspectReport& report) {
  // Throws if the file is damaged. The latest checkpoint has already been checked.
  if (weights == train::Weights::best) train::RunDirectory::open(directory).state_dict(weights);
  const auto folder =
      weights == train::Weights::best
          ? directory
          : train::CheckpointStore(directory / train::RunFiles::checkpoints).latest();
  report.tensors = tensors_of(read_safetensors_header(folder / train::RunFiles::model));
  report.json["weights"] = std::string(to_string(weights));
}

void add_checkpoint_step(int64_t step, InspectReport& report) {
  report.header += report_line("checkpoint", fmt::format("step {}", step));
  report.json["checkpoint_step"] = step;
}

void add_best(double val_loss, int64_t step, InspectReport& report) {
  report.header += report_line("val loss", fmt::format("{:.4f} (best, step {})", val_loss, step));
  report.json["best_step"] = step;
  report.json["val_loss"] = val_loss;
}

/// Adds the number of steps and the best loss of an unfinished run, as in `attend runs`.
void add_progress(const RunOverview& run, InspectReport& report) {
  report.header += report_line(
      "trained", fmt::format("{} of {} steps", run.steps, run.recipe.training.max_steps));
  report.json["steps"] = run.steps;
  if (run.val_loss) add_best(*run.val_loss, run.best_step.value(), report);
}

void add_model(const fs::path& directory, train::Weights weights, InspectReport& report) {
  auto run = train::RunDirectory::open(directory).load(weights);
  const int64_t max_seq_len = run.recipe.max_seq_len();
  const double flops =
      std::visit([&](auto& model) { return flops_per_token(model, max_seq_len); }, run.model);
  report.tensors = tensors_of(module_of(run.model));
  report.footer += report_line(
      "FLOPs", fmt::format("{} per token, forward pass, sequence length {}\n"
                           "            (matrix products only; 1 multiply-add = 2 FLOPs)",
                           count_text(flops), max_seq_len));
  report.json["weights"] = std::string(to_string(weights));
  report.json["vocab_size"] = run.tokenizer->size();
  report.json["max_seq_len"] = max_seq_len;
  report.json["flops_per_token"] = flops;
}

/// Adds report.txt, if there is one. Throws InputError if it has another checksum than in
/// `summary`.
void add_report(const fs::path& path, const train::RunSummary& summary, InspectReport& report) {
  if (!fs::exists(path)) return;
  const auto bytes = read_bytes(path, {kMaxReport});
  const auto found = train::checksum_of_file(path);
  const auto expected = summary.files.find(train::RunFiles::report_text);
  if (expected != summary.files.end() && expected->second != found) {
    throw InputError(
        fmt::format("{}: changed or damaged: checksum {}, expected {} as in {}; resume the run to "
                    "write it again",
                    path.string(), found, expected->second, train::RunFiles::summary));
  }
  const auto text = replace_invalid_utf8(bytes);
  report.json["report"] = text;
  std::istringstream lines(text);
  report.footer += "\n";
  for (std::string line; std::getline(lines, line);) report.footer += printable(line) + "\n";
}

}  // namespace

InspectReport inspect_run(const fs::path& directory) {
  const auto run = train::RunDirectory::open(directory);
  const bool custom = run.is_custom();
  const auto summary = summary_of(run);
  const bool finished = summary.has_value();
  InspectReport report;
  report.header = report_line("kind", finished ? "run" : "run (unfinished)");
  report.json = {{"kind", "run"}, {"path", directory.string()}, {"finished", finished}};
  add_provenance(run.record(), report);
  if (const auto replaced = train::RunDirectory::replaced(directory);
      train::RunDirectory::exists(replaced)) {
    report.header += report_line("replaced", printable(replaced.string()));
    report.json["replaced"] = replaced.string();
  }
  if (custom) {
    add_custom_config(run.custom_config(), report);
  } else {
    add_config(run.recipe(), report);
  }
  const auto type = custom ? train::ProblemType() : run.recipe().data.problem_type;
  if (finished)
    add_summary(*summary, f1_name(run.record().classes, type), report);
  else
    add_progress(read_overview(directory, directory), report);
  const auto& checkpoints = run.checkpoints();
  if (const auto folder = checkpoints.latest(); !folder.empty())
    add_checkpoint_step(checkpoints.read_state(folder).step, report);
  add_losses(run.file(train::RunFiles::metrics), report);
  const auto weights = finished ? train::Weights::best : run.available_weights();
  report.has_tensors = weights.has_value();
  if (weights) {
    const auto add = custom ? add_tensors : add_model;
    add(directory, *weights, report);
  }
  if (finished) add_report(run.file(train::RunFiles::report_text), *summary, report);
  return report;
}

InspectReport inspect_checkpoint(const fs::path& folder) {
  InspectReport report;
  report.header = report_line("kind", "checkpoint");
  report.json = {{"kind", "checkpoint"}, {"path", folder.string()}};
  const auto run_id = train::CheckpointStore::run_id_of(folder);
  const auto state = train::CheckpointStore(folder.parent_path(), run_id).read_state(folder);
  report.header += report_line("run_id", printable(run_id));
  report.json["run_id"] = run_id;
  add_checkpoint_step(state.step, report);
  if (state.best) add_best(state.best->loss, state.best_step, report);
  report.tensors = tensors_of(read_safetensors_header(folder / train::RunFiles::model));
  return report;
}

}  // namespace attend::app
