#include "report/report_data.h"

#include "attend/input_error.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/run_directory.h"
#include "io/files.h"
#include "report/embedding_data.h"
#include "report/encoding.h"
#include "report/model_data.h"
#include "run_overview.h"
#include "train/json_lines.h"
#include "train/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxMetricsRows = 5000;
constexpr std::size_t kMaxEvaluationsWithSamples = 30;
constexpr std::size_t kMaxText = 1000;  // bytes of a sample or an argument
constexpr std::size_t kMaxSamples = 5;
constexpr std::size_t kMaxRecipeText = 50'000;  // bytes
constexpr std::size_t kMaxArguments = 100;

/// Returns every k-th element and the last one, at most `max` in total, for the smallest k.
std::vector<json> thinned(std::vector<json> rows, std::size_t max) {
  if (rows.size() <= max) return rows;
  const auto stride = (rows.size() + max - 2) / (max - 1);
  std::vector<json> kept;
  for (std::size_t i = 0; i + 1 < rows.size(); i += stride) kept.push_back(std::move(rows[i]));
  kept.push_back(std::move(rows.back()));
  return kept;
}

/// Returns a column for each key that a row has.
template <std::size_t N>
ordered_json columns_of(const std::vector<json>& rows, const std::array<const char*, N>& keys) {
  ordered_json columns;
  for (const auto* key : keys) {
    if (std::ranges::none_of(rows, [&](const json& row) { return row.contains(key); })) continue;
    auto& column = columns[key] = ordered_json::array();
    for (const auto& row : rows) column.push_back(ordered_json(row.value(key, json(nullptr))));
  }
  return columns;
}

/// Throws InputError with the name of the file if a value is neither a number nor null.
template <std::size_t N>
void check_numbers(const std::vector<json>& rows, const std::array<const char*, N>& keys,
                   const fs::path& path) {
  for (const auto& row : rows) {
    for (const auto* key : keys) {
      const auto value = row.find(key);
      if (value == row.end() || value->is_number() || value->is_null()) continue;
      throw InputError(fmt::format("{}: damaged: {} of step {} is not a number", path.string(), key,
                                   row.at("step").get<int64_t>()));
    }
  }
}

/// Collects the data of a run.
class Collector {
 public:
  explicit Collector(const fs::path& directory)
      : directory_(directory),
        run_(train::RunDirectory::open(directory)),
        summary_(summary_of(run_)) {}

  ReportData collect() {
    ReportData data;
    auto& json = data.json;
    json["run"] = provenance();
    add_metrics(json);
    const auto weights = is_finished() ? train::Weights::best : available_weights(run_);
    if (weights && !run_.is_custom()) {
      auto run = run_.load(*weights);
      const auto step = step_of(*weights);
      auto& about = json["run"];
      about["parameters"] = parameter_count(train::module_of(run.model));
      about["best_step"] = step;
      add_samples(json, step);
      data.attention = attention_of(run, last_samples_, notes_);
      json["embeddings"] = embeddings_of(run, directory_, step, notes_);
      json["model"] =
          model_tree(std::string(train::model_kind(run.recipe.model)), train::module_of(run.model));
    }
    json["notes"] = notes_;
    return data;
  }

 private:
  bool is_finished() const { return !summary_.is_null(); }

  ordered_json provenance() {
    auto record = train::read_record(run_.file(train::RunFiles::data));
    auto& command = record.provenance.command;
    if (command.size() > kMaxArguments) {
      notes_.push_back(fmt::format("The command line is cut after {} arguments.", kMaxArguments));
      command.resize(kMaxArguments);
    }
    for (auto& argument : command) argument = shortened(argument, kMaxText);
    const auto recipe = read_bytes(run_.file(train::RunFiles::recipe));
    if (recipe.size() > kMaxRecipeText)
      notes_.push_back(fmt::format("The recipe is cut after {} bytes.", kMaxRecipeText));
    ordered_json json{
        {"name",
         fs::absolute(directory_ / "").lexically_normal().parent_path().filename().string()},
        {"id", record.run_id},
        {"task", run_.is_custom() ? "" : run_.recipe().task},
        {"recipe", record.recipe_name},
        {"state", is_finished() ? "finished" : "unfinished"}};
    json.update(train::to_object(record.provenance));
    for (const auto* key : {"seconds", "parameters", "steps", "best_step"}) {
      if (is_finished() && summary_.contains(key)) json[key] = summary_.at(key);
    }
    json["recipe_toml"] = shortened(recipe, kMaxRecipeText);
    return json;
  }

  void add_metrics(ordered_json& json) {
    const auto path = run_.file(train::RunFiles::metrics);
    if (!fs::exists(path)) return;
    std::vector<nlohmann::json> training;
    for (auto& line : train::read_json_lines(path, is_finished())) {
      auto& rows = line.contains("val_loss") ? evaluations_ : training;
      rows.push_back(std::move(line));
    }
    auto& about = json["run"];
    if (!is_finished() && !training.empty()) {
      about["steps"] = training.back().at("step").get<int64_t>();
      if (training.back().contains("seconds"))
        about["seconds"] = ordered_json(training.back().at("seconds"));
    }
    const auto add = [&](const char* name, const std::vector<nlohmann::json>& rows,
                         const auto& keys) {
      if (rows.empty()) return;
      check_numbers(rows, keys, path);
      json[name] = columns_of(thinned(rows, kMaxMetricsRows), keys);
      if (rows.size() <= kMaxMetricsRows) return;
      notes_.push_back(fmt::format("{} of {} rows of the metrics ({}) are shown.",
                                   json[name]["step"].size(), rows.size(), name));
    };
    add("training", training,
        std::array{"step", "train_loss", "train_accuracy", "lr", "grad_norm", "tokens_per_second",
                   "seconds"});
    add("evaluations", evaluations_, std::array{"step", "val_loss", "val_accuracy"});
  }

  /// Returns the step after which the model had these weights.
  int64_t step_of(train::Weights weights) const {
    if (is_finished()) return summary_.value("best_step", int64_t{0});
    if (weights == train::Weights::last) {
      const auto checkpoints = run_.checkpoints();
      return checkpoints.read_state(checkpoints.latest()).step;
    }
    int64_t step = 0;
    double lowest = INFINITY;
    for (const auto& row : evaluations_) {
      const auto& loss = row.at("val_loss");
      if (!loss.is_number() || loss.get<double>() >= lowest) continue;
      lowest = loss.get<double>();
      step = row.at("step").get<int64_t>();
    }
    return step;
  }

  /// Adds the samples up to `step`, the step of the weights.
  void add_samples(ordered_json& data, int64_t step) {
    const auto path = run_.file(train::RunFiles::samples);
    if (!fs::exists(path)) return;
    std::vector<json> lines;
    for (auto& line : train::read_json_lines(path, is_finished())) {
      if (line.at("step").get<int64_t>() <= step)
        lines.push_back(checked_samples(std::move(line), path));
    }
    if (lines.empty()) return;
    const auto count = lines.size();
    last_samples_ = lines.back().at("samples");
    const auto shown = thinned(std::move(lines), kMaxEvaluationsWithSamples);
    if (shown.size() < count) {
      notes_.push_back(
          fmt::format("Samples of {} of {} evaluations are shown.", shown.size(), count));
    }
    auto& all = data["samples"] = ordered_json::array();
    for (const auto& line : shown) {
      auto samples = ordered_json::array();
      for (const auto& sample : line.at("samples")) {
        const auto text = [&](const char* key) {
          const auto& value = sample.at(key);
          return value.is_null() ? ordered_json(nullptr)
                                 : ordered_json(shortened(value.get<std::string>(), kMaxText));
        };
        samples.push_back({{"input", text("input")},
                           {"output", text("output")},
                           {"expected", text("expected")},
                           {"correct", ordered_json(sample.at("correct"))}});
      }
      all.push_back({{"step", line.at("step").get<int64_t>()}, {"samples", std::move(samples)}});
    }
  }

  /// Returns `line` with at most kMaxSamples samples. Throws InputError with the name of the file
  /// if a value is missing or has another type.
  json checked_samples(json line, const fs::path& path) const {
    const auto is_text = [](const json& sample, const char* key, bool may_be_null) {
      const auto value = sample.find(key);
      return value != sample.end() && (value->is_string() || (may_be_null && value->is_null()));
    };
    const auto samples = line.find("samples");
    const bool valid =
        samples != line.end() && samples->is_array() &&
        std::all_of(samples->begin(), samples->end(), [&](const json& sample) {
          return sample.is_object() && is_text(sample, "input", false) &&
                 is_text(sample, "output", false) && is_text(sample, "expected", true) &&
                 sample.contains("correct") &&
                 (sample.at("correct").is_boolean() || sample.at("correct").is_null());
        });
    if (!valid) {
      throw InputError(
          fmt::format("{}: damaged: the samples of step {} are not a list of objects with input, "
                      "output, expected and correct",
                      path.string(), line.at("step").get<int64_t>()));
    }
    if (samples->size() > kMaxSamples) samples->get_ref<json::array_t&>().resize(kMaxSamples);
    return line;
  }

  fs::path directory_;
  train::RunDirectory run_;
  ordered_json summary_;  // null if the run is not finished
  std::vector<json> evaluations_;
  json last_samples_ = json::array();  // of the weights that are shown
  std::vector<std::string> notes_;
};

}  // namespace

ReportData report_data(const fs::path& directory) {
  return Collector(directory).collect();
}

}  // namespace attend::app
