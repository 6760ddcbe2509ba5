#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend {

struct CopyStateOptions {
  bool strict = true;  ///< whether missing and unexpected names are errors
  bool cast = false;   ///< whether dtypes may differ
};

/// Copies each tensor of `source` into the tensor of the same name in `destination`, without
/// recording gradients. Throws InputError, listing all missing, unexpected and mismatched tensors;
/// `destination` is then unchanged. The message begins with "the `what` does not fit the model".
ATTEND_API IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                                       const std::map<std::string, torch::Tensor>& source,
                                       const std::string& what,
                                       const CopyStateOptions& options = {});

}  // namespace attend
