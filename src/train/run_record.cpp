#include "train/run_record.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/training_run.h"
#include "attend/version.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "train/checksum.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

namespace attend::train {
namespace {

using Json = nlohmann::ordered_json;

/// Reads a JSON file with a checksum, and converts its content with `convert`. Throws InputError
/// with the name of the file and `advice` if the file is damaged.
template <typename Convert>
auto read_json(const std::filesystem::path& path, const char* advice, const Convert& convert) {
  const auto text = read_bytes(path);
  const auto damaged = [&](const std::string& message) {
    return InputError(fmt::format("{}: {}; {}", path.string(), message, advice));
  };
  try {
    return convert(parse_with_checksum(text));
  } catch (const Json::exception& error) {
    throw damaged(message_of(error));
  } catch (const InputError& error) {
    throw damaged(error.what());
  }
}

// Optional keys of summary.json.
constexpr const char* kValAccuracy = "val_accuracy";
constexpr const char* kValF1 = "val_f1";
constexpr const char* kSkippedSteps = "skipped_steps";
constexpr const char* kResultFiles = "files";

constexpr const char* kNextRecipe = "next_recipe";  // key of `RunRecord::next_recipe`
constexpr const char* kBase = "base";               // key of `RunRecord::base`
constexpr const char* kBasePath = "path";
constexpr const char* kBaseChecksum = "checksum";
constexpr const char* kRecipeName = "recipe";  // key of `RunRecord::recipe_name`

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');)
    arguments.push_back(replace_invalid_utf8(argument));  // JSON strings are UTF-8
  // The folder of the program is often a path of this machine.
  if (!arguments.empty()) arguments[0] = std::filesystem::path(arguments[0]).filename();
  return arguments;
}

/// Returns the first "model name" in /proc/cpuinfo; not all architectures have one.
std::string cpu_model() {
  constexpr std::string_view kKey = "model name";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto value = line.find(": ");
    if (line.starts_with(kKey) && value != std::string::npos)
      return replace_invalid_utf8(line.substr(value + 2));
  }
  return {};
}

std::string os_name() {
  utsname names{};
  if (::uname(&names) != 0) return {};
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

Json to_object(const Provenance& provenance) {
  return {{"created", provenance.created}, {"version", provenance.version},
          {"command", provenance.command}, {"os", provenance.os},
          {"cpu", provenance.cpu},         {"num_cpus", provenance.num_cpus}};
}

Provenance provenance_from(const Json& json) {
  return {.created = json.at("created"),
          .version = json.at("version"),
          .command = json.at("command"),
          .os = json.at("os"),
          .cpu = json.at("cpu"),
          .num_cpus = json.at("num_cpus")};
}

/// True if a value must be the same when a run is resumed. The paths may differ, since the files
/// may have moved; the checksum of the data must not. Of the training options, only the optimizer
/// and the seed must be the same.
bool is_fixed(const RecipeField& field) {
  const std::string_view section = field.section;
  const std::string_view key = field.key;
  return section == "training" ? key == "optimizer" || key == "seed"
                               : !field.is_paths() && key != "token_dir";
}

/// Adds a line to `differences` if `run` and `now` differ. `what`: name of the compared value.
void compare(const std::string& what, const std::string& run, const std::string& now,
             std::vector<std::string>& differences) {
  if (run != now)
    differences.push_back(fmt::format("{}: '{}' in the run, now '{}'", what, run, now));
}

/// Returns the value of `key`; empty if there is none.
std::string find(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::string() : found->second;
}

/// Returns the checksums of `Recipe::text` and `DataConfig::val_text` in a checksum of the data.
std::pair<std::string, std::string> parts_of(const std::string& data_checksum) {
  const auto end = std::min(data_checksum.find('-'), data_checksum.size());
  return {data_checksum.substr(0, end), data_checksum.substr(end)};
}

std::optional<BaseModel> base_in(const Json& json) {
  const auto found = json.find(kBase);
  if (found == json.end()) return std::nullopt;
  return BaseModel{.path = found->at(kBasePath), .checksum = found->at(kBaseChecksum)};
}

/// Adds the values of the keys that did not exist when the run was written. A run of a custom
/// module has none of them.
std::map<std::string, std::string> with_later_keys(std::map<std::string, std::string> fixed) {
  const auto kind = find(fixed, "kind");
  if (std::ranges::find(kModelKinds, kind) != kModelKinds.end())
    fixed.merge(fixed_values(recipe_before_keys(fixed)));
  return fixed;
}

}  // namespace

std::vector<std::string> differences_of(const std::map<std::string, std::string>& run,
                                        const std::map<std::string, std::string>& now) {
  auto all = run;
  all.insert(now.begin(), now.end());
  std::vector<std::string> differences;
  for (const auto& [key, value] : all) compare(key, find(run, key), find(now, key), differences);
  return differences;
}

std::vector<std::string> differences_of(const Recipe& run, const Recipe& now,
                                        const std::function<bool(const RecipeField&)>& selects) {
  std::vector<std::string> differences;
  for (const auto& field : recipe_fields()) {
    const auto run_value = value_text(field, run);
    const auto now_value = value_text(field, now);
    if (selects(field) && !run_value.empty() && !now_value.empty())
      compare(field.key, run_value, now_value, differences);
  }
  return differences;
}

std::vector<std::string> differences_of(const RunRecord& run, const RunRecord& now) {
  auto differences = differences_of(run.fixed, now.fixed);
  if (run.data_checksum != now.data_checksum) {
    const auto recipe = parse_recipe({RunFiles::recipe, now.texts.at(RunFiles::recipe)}, Recipe{});
    const auto data = changed_data(recipe, run.data_checksum, now.data_checksum);
    compare(data + ": checksum of the data", run.data_checksum, now.data_checksum, differences);
  }
  compare("classes", fmt::format("{}", fmt::join(run.classes, ", ")),
          fmt::format("{}", fmt::join(now.classes, ", ")), differences);
  return differences;
}

std::string changed_data(const Recipe& recipe, const std::string& run, const std::string& now) {
  if (recipe.text.empty()) return recipe.task;
  const auto [run_text, run_val_text] = parts_of(run);
  const auto [text, val_text] = parts_of(now);
  std::vector<std::string> changed;
  if (text != run_text) changed.push_back("`text` " + paths_text(recipe.text));
  if (val_text != run_val_text) {
    const auto& paths = recipe.data.val_text;
    changed.push_back("`val_text` " + (paths.empty() ? "(none)" : paths_text(paths)));
  }
  return fmt::format("{}", fmt::join(changed, " and "));
}

void throw_if_different(const std::filesystem::path& directory,
                        const std::vector<std::string>& differences) {
  if (differences.empty()) return;
  throw InputError(fmt::format("{}: the run was created with other values: {}", directory.string(),
                               fmt::join(differences, "; ")));
}

std::string run_id_in(const Json& json) {
  const auto found = json.find(kRunId);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string to_json(const Provenance& provenance) {
  return to_object(provenance).dump();
}

Provenance current_provenance() {
  return {.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
          .version = ATTEND_VERSION,
          .command = command_line(),
          .os = os_name(),
          .cpu = cpu_model(),
          .num_cpus = std::thread::hardware_concurrency()};
}

void identify(RunRecord& record) {
  record.run_id = random_id();
  record.provenance = current_provenance();
  for (const auto& [name, text] : record.texts) record.files[name] = checksum_text(crc32c(text));
}

std::string to_json(const RunRecord& record) {
  Json json{{kRunId, record.run_id},
            {"provenance", to_object(record.provenance)},
            {"checksum", record.data_checksum},
            {"classes", record.classes},
            {"fixed", record.fixed},
            {"files", record.files}};
  if (!record.init_from.empty()) json[kInitFrom] = record.init_from;
  if (record.base)
    json[kBase] = {{kBasePath, record.base->path}, {kBaseChecksum, record.base->checksum}};
  if (!record.next_recipe.empty()) json[kNextRecipe] = record.next_recipe;
  if (!record.recipe_name.empty()) json[kRecipeName] = record.recipe_name;
  return to_text_with_checksum(json);
}

RunRecord read_record(const std::filesystem::path& path) {
  return read_json(path, kRestore, [](const Json& json) -> RunRecord {
    return {.run_id = json.at(kRunId),
            .provenance = provenance_from(json.at("provenance")),
            .data_checksum = json.at("checksum"),
            .classes = json.at("classes"),
            .fixed = with_later_keys(json.at("fixed")),
            .files = json.at("files"),
            .init_from = json.value(kInitFrom, std::string()),
            .base = base_in(json),
            .recipe_name = json.value(kRecipeName, std::string()),
            .next_recipe = json.value(kNextRecipe, std::string())};
  });
}

Json to_object(const RunSummary& summary) {
  Json json{{kRunId, summary.run_id}};
  if (!summary.task.empty()) json["task"] = summary.task;
  json.update({{"parameters", summary.parameters},
               {"steps", summary.steps},
               {"best_step", summary.best_step},
               {"threads", summary.threads},
               {"seconds", summary.seconds},
               {"tokens_per_second", summary.tokens_per_second},
               {"train_loss", summary.train_loss},
               {"val_loss", summary.val_loss}});
  if (summary.val_accuracy) json[kValAccuracy] = *summary.val_accuracy;
  if (summary.val_f1) json[kValF1] = *summary.val_f1;
  if (summary.skipped_steps > 0) json[kSkippedSteps] = summary.skipped_steps;
  if (!summary.files.empty()) json[kResultFiles] = summary.files;
  return json;
}

std::string to_json(const RunSummary& summary) {
  return to_object(summary).dump();
}

RunSummary read_summary(const std::filesystem::path& path) {
  constexpr const char* kAdvice = "delete it and resume the run to write it again";
  return read_json(path, kAdvice, [](const Json& json) -> RunSummary {
    return {
        .run_id = run_id_in(json),
        .task = json.value("task", std::string()),
        .parameters = json.at("parameters"),
        .steps = json.at("steps"),
        .best_step = json.at("best_step"),
        .threads = json.at("threads"),
        .seconds = json.at("seconds"),
        .tokens_per_second = json.at("tokens_per_second"),
        .train_loss = json.at("train_loss").is_null() ? NAN : json.at("train_loss").get<double>(),
        .val_loss = json.at("val_loss"),
        .val_accuracy =
            json.contains(kValAccuracy) ? std::optional<double>(json[kValAccuracy]) : std::nullopt,
        .val_f1 = json.contains(kValF1) ? std::optional<double>(json[kValF1]) : std::nullopt,
        .skipped_steps = json.value(kSkippedSteps, int64_t{0}),
        .files = json.value(kResultFiles, std::map<std::string, std::string>())};
  });
}

void check_run_id(const std::filesystem::path& path, const std::string& found,
                  const std::string& expected) {
  if (found == expected) return;
  throw InputError(fmt::format("{}: belongs to another run: run_id '{}', expected '{}' as in {}",
                               path.string(), printable(found), expected, RunFiles::data));
}

std::map<std::string, std::string> fixed_values(const Recipe& recipe) {
  std::map<std::string, std::string> values{{"kind", std::string(model_kind(recipe.model))}};
  for (const auto& field : recipe_fields()) {
    if (is_fixed(field)) values[field.key] = value_text(field, recipe);
  }
  return values;
}

Recipe recipe_before_keys(const std::map<std::string, std::string>& fixed) {
  auto toml = fmt::format("model.kind = '{}'\n", find(fixed, "kind"));
  const auto task = std::ranges::find(tasks(), find(fixed, "task"), &TaskInfo::name);
  for (const auto& field : recipe_fields()) {
    if (*field.before == '\0' || task == tasks().end()) continue;
    if (std::ranges::find(task->data_keys, field.key) != task->data_keys.end())
      toml += fmt::format("{}.{} = {}\n", field.section, field.key, field.before);
  }
  return parse_recipe({RunFiles::data, toml}, Recipe{});
}

RunRecord new_record(const Recipe& recipe, const Task& task) {
  auto texts = task.tokenizer().files();
  texts[RunFiles::recipe] = to_toml(recipe);
  return {.data_checksum = task.data_checksum(),
          .classes = task.classes(),
          .fixed = fixed_values(recipe),
          .recipe_name = recipe.name,
          .texts = std::move(texts)};
}

RunRecord new_record(const TrainingConfig& config, const TrainingRunOptions& options) {
  Recipe recipe;
  recipe.training = config;
  std::map<std::string, std::string> fixed{{"kind", kCustomKind}};
  for (const auto& field : recipe_fields()) {
    if (std::string_view(field.section) == "training" && is_fixed(field))
      fixed[field.key] = value_text(field, recipe);
  }
  if (options.optimizer != nullptr) fixed["optimizer"] = optimizer_name(*options.optimizer);
  for (const auto& [key, value] : options.values) fixed["values." + key] = value;
  return {.data_checksum = {},
          .classes = {},
          .fixed = std::move(fixed),
          .texts = {{RunFiles::recipe, to_toml(config, options.values)}}};
}

}  // namespace attend::train
