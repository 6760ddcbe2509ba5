#include "report/report_data.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/tokenizer.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/json_lines.h"
#include "attend/train/run_directory.h"
#include "report/embedding_data.h"
#include "report/encoding.h"
#include "report/metrics_data.h"
#include "report/model_data.h"
#include "report/thinned.h"
#include "runs/run_overview.h"
#include "terminal/shell_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxEvaluationsWithSamples = 30;
constexpr std::size_t kMaxText = 1000;  // bytes of a sample or an argument
constexpr std::size_t kMaxSamples = 5;
constexpr std::size_t kMaxRecipeText = 50'000;  // bytes
constexpr std::size_t kMaxArguments = 100;
constexpr std::size_t kMaxModules = 1000;

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
    const auto weights = is_finished() ? train::Weights::best : run_.available_weights();
    if (weights && !run_.is_custom()) {
      auto run = run_.load(*weights);
      const auto step = step_of(*weights);
      auto& about = json["run"];
      about["parameters"] = parameter_count(module_of(run.model));
      about["best_step"] = step;
      add_samples(json, step, run.tokenizer->size());
      data.attention = attention_of(run, last_tokens(*run.tokenizer), notes_);
      json["embeddings"] = embeddings_of(run, directory_, step, notes_);
      auto& tree = json["model"] =
          model_tree(std::string(model_kind(run.recipe.model)), module_of(run.model));
      if (const auto count = limit_modules(tree, kMaxModules); count > kMaxModules)
        notes_.push_back(
            fmt::format("{} of {} modules are shown, the outer ones.", kMaxModules, count));
    }
    json["notes"] = notes_;
    return data;
  }

 private:
  bool is_finished() const { return summary_.has_value(); }

  ordered_json provenance() {
    auto provenance = run_.record().provenance;
    auto& command = provenance.command;
    if (command.size() > kMaxArguments) {
      notes_.push_back(fmt::format("The command line is cut after {} arguments.", kMaxArguments));
      command.resize(kMaxArguments);
    }
    for (auto& argument : command) argument = shortened(argument, kMaxText);
    const auto recipe = read_bytes(run_.file(train::RunFiles::recipe));
    if (recipe.size() > kMaxRecipeText)
      notes_.push_back(fmt::format("The recipe is cut after {} bytes.", kMaxRecipeText));
    ordered_json json{{"name", name_of_run(directory_)},
                      {"run_id", run_.record().run_id},
                      {"task", run_.is_custom() ? "" : run_.recipe().task},
                      {"recipe", run_.record().recipe_name},
                      {"state", is_finished() ? "finished" : "unfinished"}};
    json.update(ordered_json::parse(train::to_json(provenance)));
    json["command"] = command_text(command);
    if (summary_) {
      json.update({{"seconds", summary_->seconds},
                   {"parameters", summary_->parameters},
                   {"steps", summary_->steps},
                   {"best_step", summary_->best_step}});
    }
    json["recipe_toml"] = shortened(recipe, kMaxRecipeText);
    return json;
  }

  void add_metrics(ordered_json& json) {
    metrics_ =
        metrics_of(run_.file(train::RunFiles::metrics), is_finished(), kMaxMetricsRows, notes_);
    json.update(metrics_.columns);
    if (is_finished()) return;
    auto& about = json["run"];
    if (metrics_.last_step) about["steps"] = *metrics_.last_step;
    if (metrics_.seconds) about["seconds"] = *metrics_.seconds;
  }

  /// Returns the step after which the model had these weights.
  int64_t step_of(train::Weights weights) const {
    if (summary_) return summary_->best_step;
    if (weights == train::Weights::last) return run_.checkpoints().latest_state().value().step;
    return metrics_.best_step.value_or(0);
  }

  /// Adds the samples up to `step`, the step of the weights.
  void add_samples(ordered_json& data, int64_t step, int64_t vocab_size) {
    const auto path = run_.file(train::RunFiles::samples);
    if (!fs::exists(path)) return;
    Thinned<json> lines(kMaxEvaluationsWithSamples);
    train::for_each_json_line(path, is_finished(), [&](const std::string& text) {
      auto line = json::parse(text);
      if (line.at("step").get<int64_t>() <= step)
        lines.add(checked_samples(std::move(line), vocab_size, path));
    });
    if (lines.count() == 0) return;
    last_samples_ = lines.last()->at("samples");
    const auto shown = lines.rows();
    if (shown.size() < lines.count()) {
      notes_.push_back(
          fmt::format("Samples of {} of {} evaluations are shown.", shown.size(), lines.count()));
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

  /// Returns the tokens of the samples that are shown last; none for a sample whose tokens are
  /// unknown. Samples of an older run have texts only, which are encoded again.
  std::vector<SampleTokens> last_tokens(const Tokenizer& tokenizer) {
    using Ids = std::vector<int64_t>;
    std::vector<SampleTokens> all;
    for (const auto& sample : last_samples_) {
      auto& tokens = all.emplace_back();
      if (sample.contains("input_tokens")) {
        tokens = {sample.at("input_tokens").get<Ids>(), sample.at("output_tokens").get<Ids>()};
        continue;
      }
      const auto input = sample.at("input").get<std::string>();
      const auto output = sample.at("output").get<std::string>();
      try {
        if ((input + output).find("\xEF\xBF\xBD") != std::string::npos)  // as `RunHistory` writes
          throw InputError("its text is not valid UTF-8");
        tokens = {tokenizer.encode(input), tokenizer.encode(output)};
      } catch (const InputError& error) {
        notes_.push_back(
            fmt::format("Sample {} has no attention weights: {}", all.size(), error.what()));
      }
    }
    return all;
  }

  /// Returns `line` with at most kMaxSamples samples. Throws InputError with the name of the file
  /// if a value is missing or has another type, or if a token is not in the vocabulary. Samples of
  /// older runs have no tokens.
  static json checked_samples(json line, int64_t vocab_size, const fs::path& path) {
    const auto is_text = [](const json& sample, const char* key, bool may_be_null) {
      const auto value = sample.find(key);
      return value != sample.end() && (value->is_string() || (may_be_null && value->is_null()));
    };
    const auto are_tokens = [&](const json& sample, const char* key) {
      const auto value = sample.find(key);
      return value != sample.end() && value->is_array() &&
             std::all_of(value->begin(), value->end(), [&](const json& token) {
               return token.is_number_unsigned() &&
                      token.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
             });
    };
    const auto samples = line.find("samples");
    const bool valid =
        samples != line.end() && samples->is_array() &&
        std::all_of(samples->begin(), samples->end(), [&](const json& sample) {
          return sample.is_object() && is_text(sample, "input", false) &&
                 is_text(sample, "output", false) && is_text(sample, "expected", true) &&
                 sample.contains("correct") &&
                 (sample.at("correct").is_boolean() || sample.at("correct").is_null()) &&
                 (!sample.contains("input_tokens") ||
                  (are_tokens(sample, "input_tokens") && are_tokens(sample, "output_tokens")));
        });
    if (!valid) {
      throw InputError(
          fmt::format("{}: damaged: the samples of step {} are not a list of objects with input, "
                      "output, expected, correct, input_tokens and output_tokens (ids below {})",
                      path.string(), line.at("step").get<int64_t>(), vocab_size));
    }
    if (samples->size() > kMaxSamples) samples->get_ref<json::array_t&>().resize(kMaxSamples);
    return line;
  }

  fs::path directory_;
  train::RunDirectory run_;
  std::optional<train::RunSummary> summary_;  // empty if the run is not finished
  MetricsData metrics_;
  json last_samples_ = json::array();  // of the weights that are shown
  std::vector<std::string> notes_;
};

}  // namespace

ReportData report_data(const fs::path& directory) {
  return Collector(directory).collect();
}

}  // namespace attend::app
