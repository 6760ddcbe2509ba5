#pragma once

#include "attend/api.h"
#include "attend/models/model.h"

#include <string>
#include <vector>

namespace attend {

/// Returns the config with a value in place of each 0 or empty list that means "as usual", such as
/// head_dim, and without the options that only training uses, such as dropout.
ATTEND_API ModelConfig explicit_config(const ModelConfig& config);

/// Returns a text for each option of a model in which two explicit configs of the same kind differ:
/// "norm: found layer, expected rms". The names are those of a recipe.
ATTEND_API std::vector<std::string> config_differences(const ModelConfig& found,
                                                       const ModelConfig& expected);

}  // namespace attend
