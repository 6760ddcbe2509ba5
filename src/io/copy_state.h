#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend {

/// Copies each tensor of `source` into the tensor of the same name in `destination`, without
/// recording gradients. Throws InputError, listing all missing or unknown names and all tensors of
/// another dtype or shape; `destination` is then unchanged. The message begins with "the `what`
/// does not fit the model".
ATTEND_API void copy_state(std::map<std::string, torch::Tensor> destination,
                           const std::map<std::string, torch::Tensor>& source,
                           const std::string& what);

}  // namespace attend
