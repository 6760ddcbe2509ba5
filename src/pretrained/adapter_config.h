#pragma once

#include "attend/api.h"
#include "io/json_fields.h"
#include "tokenizers/regex.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend {

/// Content of an `adapter_config.json` of PEFT. Names of modules are those in transformers, such as
/// `model.layers.0.self_attn.q_proj`.
struct ATTEND_API AdapterConfig {
  std::string base = {};  ///< `base_model_name_or_path`; empty if it is null
  int64_t rank = 8;       ///< `r`
  double alpha = 8.0;
  double dropout = 0.0;
  bool rslora = false;
  bool fan_in_fan_out = false;                       ///< the weights are those of Conv1D, (in, out)
  std::string task_type = {};                        ///< such as CAUSAL_LM; empty if it is null
  std::vector<std::string> target_modules = {};      ///< whole names, or their last components
  std::string target_pattern = {};                   ///< regular expression; replaces the list
  std::map<std::string, int64_t> rank_pattern = {};  ///< by regular expression; replaces `rank`
  std::map<std::string, double> alpha_pattern = {};  ///< by regular expression; replaces `alpha`
  /// Names or parts of names of modules that the adapter contains instead of adapting them.
  std::vector<std::string> modules_to_save = {};
  /// False if a key such as `exclude_modules` selects some of the targets, or if there are none.
  bool targets_are_complete = true;
};

/// Reads an `adapter_config.json`. Throws InputError for a key or value that is not supported, such
/// as DoRA, trained biases, or an initialization that changed the weights of the base model. The
/// message names key and value.
ATTEND_API AdapterConfig read_adapter_config(JsonFields& reader);

/// Returns an `adapter_config.json`, without `target_pattern`.
ATTEND_API nlohmann::ordered_json write_adapter_config(const AdapterConfig& config);

/// Name of the file of an `AdapterConfig`.
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

/// Returns the folder of the base model of an adapter. A relative path is seen from the working
/// directory or else from the adapter. Throws InputError if there is no such folder.
ATTEND_API std::filesystem::path base_of_adapter(const std::filesystem::path& folder);

/// The name for all linear layers but the head, as a value of `target_modules`.
inline constexpr std::string_view kAllLinear = "all-linear";

/// Selects the modules of an `AdapterConfig` by their names, as PEFT does.
class ATTEND_API AdapterTargets {
 public:
  /// Throws InputError for an invalid regular expression.
  explicit AdapterTargets(const AdapterConfig& config);

  /// True if the module is adapted; for `kAllLinear`, if `is_head` is false.
  bool contains(const std::string& module, bool is_head) const;
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  /// True if `AdapterConfig::modules_to_save` contains the module or one in which it is.
  bool saves(const std::string& module) const;

 private:
  template <typename T>
  struct Patterns {
    std::vector<std::pair<tokenizers::Regex, T>> all;
    /// Returns the value of the pattern that matches. Throws InputError if several match whose
    /// values differ.
    T find(const char* key, const std::string& module, T missing,
           tokenizers::StepBudget& budget) const;
  };

  AdapterConfig config_;
  std::optional<tokenizers::Regex> target_pattern_;
  Patterns<int64_t> ranks_;
  Patterns<double> alphas_;
  mutable tokenizers::StepBudget budget_;  // of all searches
};

}  // namespace attend
