#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend {

/// Copies each tensor of `source` into the one of that name in `destination`, without recording
/// gradients. Throws InputError before anything is changed, listing each name that is missing,
/// unknown, or of another dtype or shape: "the `what` does not fit the model: NAME: missing; ...".
ATTEND_API void copy_state(std::map<std::string, torch::Tensor> destination,
                           const std::map<std::string, torch::Tensor>& source,
                           const std::string& what);

}  // namespace attend
