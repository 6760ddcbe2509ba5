#include "pretrained/adapter_config.h"

#include "attend/io/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace attend {
namespace {

constexpr const char* kModelConfigFile = "config.json";
constexpr int64_t kMaxRank = 1 << 16;
constexpr std::size_t kMaxPatterns = 4096;

/// Returns a list of strings, or a string as a list of one; empty if the key is missing.
std::vector<std::string> read_names(JsonFields& reader, const std::string& key) {
  if (reader.has(key) && reader.json().at(key).is_string()) return {reader.string(key)};
  return reader.strings(key);
}

/// Reads an object whose keys are regular expressions.
template <typename T, typename Read>
std::map<std::string, T> read_pattern(JsonFields& reader, const std::string& key,
                                      const Read& read) {
  std::map<std::string, T> values;
  if (!reader.has(key)) return values;
  auto object = reader.object(key);
  if (object.json().size() > kMaxPatterns) {
    throw InputError(fmt::format("`{}`: found {} patterns, expected at most {}", key,
                                 object.json().size(), kMaxPatterns));
  }
  for (const auto& [pattern, value] : object.json().items())
    values.emplace(pattern, read(object, pattern));
  return values;
}

double read_positive(JsonFields& reader, const std::string& key, double missing) {
  const auto value = reader.number(key, missing);
  if (!(value > 0)) reader.throw_unexpected(key, "a positive number");
  return value;
}

void read_targets(JsonFields& reader, AdapterConfig& config) {
  constexpr const char* kTargets = "target_modules";
  if (reader.has(kTargets) && reader.json().at(kTargets).is_string())
    config.target_pattern = reader.string(kTargets);
  else
    config.target_modules = reader.strings(kTargets);
  config.targets_are_complete = !reader.has("exclude_modules") &&
                                !reader.has("layers_to_transform") &&
                                !(config.target_pattern.empty() && config.target_modules.empty());
  reader.ignore({"exclude_modules", "layers_to_transform", "layers_pattern"});
}

/// Requires the values with which adapters are the product of A and B only.
void require_plain(JsonFields& reader) {
  reader.require("bias", "none");
  for (const char* key : {"use_dora", "lora_bias", "use_qalora", "ensure_weight_tying"})
    reader.require(key, false);
  constexpr std::array<std::string_view, 3> kInitializations{"gaussian", "orthogonal", "eva"};
  constexpr const char* kInitialization = "init_lora_weights";
  if (reader.has(kInitialization) && !reader.json().at(kInitialization).is_boolean()) {
    const auto name = reader.string(kInitialization);
    if (std::ranges::find(kInitializations, name) == kInitializations.end()) {
      reader.throw_unexpected(
          kInitialization, "true, false, gaussian, orthogonal or eva, which keep the base model");
    }
  }
  reader.ignore({kInitialization});
}

/// Accepts keys about the file, and those that are unknown if their value switches nothing on.
void ignore_without_effect(JsonFields& reader) {
  reader.ignore({"peft_version", "auto_mapping", "revision", "inference_mode", "eva_config",
                 "megatron_core", "qalora_group_size", "runtime_config"});
  const std::set<std::string> known{
      "bias",      "use_dora",       "lora_bias",      "use_qalora", "ensure_weight_tying",
      "peft_type", "target_modules", "modules_to_save"};
  for (const auto& [key, value] : reader.json().items()) {
    const bool is_off =
        value.is_null() || value == false || (value.is_structured() && value.empty());
    if (is_off && known.count(key) == 0) reader.ignore({key.c_str()});
  }
}

tokenizers::Regex whole(const std::string& pattern) {
  return tokenizers::Regex(fmt::format("\\A(?:{})\\z", pattern));
}

bool matches(const tokenizers::Regex& regex, const std::string& name,
             tokenizers::StepBudget& budget) {
  bool found = false;
  regex.for_each_match(name, budget, [&](auto) { found = true; });
  return found;
}

}  // namespace

AdapterConfig read_adapter_config(JsonFields& reader) {
  AdapterConfig config;
  reader.choice("peft_type", {"LORA"});
  config.base = reader.string("base_model_name_or_path", "");
  config.rank = reader.size("r", config.rank, 1, kMaxRank);
  config.alpha = read_positive(reader, "lora_alpha", config.alpha);
  config.dropout = reader.number("lora_dropout", config.dropout);
  if (!(config.dropout >= 0 && config.dropout < 1))
    reader.throw_unexpected("lora_dropout", "a number from 0 to less than 1");
  config.rslora = reader.boolean("use_rslora", config.rslora);
  config.fan_in_fan_out = reader.boolean("fan_in_fan_out", config.fan_in_fan_out);
  config.task_type = reader.string("task_type", "");
  read_targets(reader, config);
  config.rank_pattern = read_pattern<int64_t>(
      reader, "rank_pattern",
      [](auto& object, const auto& pattern) { return object.integer(pattern, 1, kMaxRank); });
  config.alpha_pattern = read_pattern<double>(
      reader, "alpha_pattern",
      [](auto& object, const auto& pattern) { return read_positive(object, pattern, 0); });
  config.modules_to_save = read_names(reader, "modules_to_save");
  require_plain(reader);
  ignore_without_effect(reader);
  reader.finish();
  return config;
}

nlohmann::ordered_json write_adapter_config(const AdapterConfig& config) {
  const auto or_null = [](const auto& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return {{"alpha_pattern", nlohmann::ordered_json(config.alpha_pattern)},
          {"base_model_name_or_path", or_null(config.base)},
          {"bias", "none"},
          {"fan_in_fan_out", config.fan_in_fan_out},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", config.alpha},
          {"lora_dropout", config.dropout},
          {"modules_to_save", or_null(config.modules_to_save)},
          {"peft_type", "LORA"},
          {"r", config.rank},
          {"rank_pattern", nlohmann::ordered_json(config.rank_pattern)},
          {"target_modules", config.target_modules},
          {"task_type", or_null(config.task_type)},
          {"use_dora", false},
          {"use_rslora", config.rslora}};
}

std::filesystem::path base_of_adapter(const std::filesystem::path& folder) {
  const auto path = file_in(folder, kAdapterConfigFile);
  const std::filesystem::path base = with_json_file(path, read_adapter_config).base;
  for (const auto& found : {base, folder / base}) {
    if (!base.empty() && std::filesystem::is_regular_file(found / kModelConfigFile)) return found;
  }
  throw InputError(fmt::format(
      "{}: `base_model_name_or_path`: found '{}', expected the path of a folder with {}, absolute "
      "or seen from the working directory or from the adapter",
      path.string(), printable(base.string()), kModelConfigFile));
}

template <typename T>
T AdapterTargets::Patterns<T>::find(const char* key, const std::string& module, T missing,
                                    tokenizers::StepBudget& budget) const {
  std::optional<T> found;
  for (const auto& [regex, value] : all) {
    if (found == value || !matches(regex, module, budget)) continue;
    if (found) {
      throw InputError(fmt::format("`{}`: found {} and {} for the module '{}', expected one value",
                                   key, *found, value, module));
    }
    found = value;
  }
  return found.value_or(missing);
}

AdapterTargets::AdapterTargets(const AdapterConfig& config) : config_(config) {
  const auto add = [](const auto& patterns, auto& list) {
    for (const auto& [pattern, value] : patterns)
      list.all.emplace_back(whole(fmt::format("(?:.*\\.)?(?:{})", pattern)), value);
  };
  with_source("`rank_pattern`", [&] { add(config.rank_pattern, ranks_); });
  with_source("`alpha_pattern`", [&] { add(config.alpha_pattern, alphas_); });
  const auto& pattern = config.target_pattern;
  if (!pattern.empty() && pattern != kAllLinear)
    with_source("`target_modules`", [&] { target_pattern_ = whole(pattern); });
}

bool AdapterTargets::contains(const std::string& module, bool is_head) const {
  if (target_pattern_) return matches(*target_pattern_, module, budget_);
  if (config_.target_pattern == kAllLinear) return !is_head;
  return std::ranges::any_of(config_.target_modules, [&](const auto& target) {
    return module == target || module.ends_with("." + target);
  });
}

int64_t AdapterTargets::rank_of(const std::string& module) const {
  return ranks_.find("rank_pattern", module, config_.rank, budget_);
}

double AdapterTargets::alpha_of(const std::string& module) const {
  return alphas_.find("alpha_pattern", module, config_.alpha, budget_);
}

bool AdapterTargets::saves(const std::string& module) const {
  const auto whole_components = "." + module + ".";
  return std::ranges::any_of(config_.modules_to_save, [&](const auto& name) {
    return whole_components.find("." + name + ".") != std::string::npos;
  });
}

}  // namespace attend
