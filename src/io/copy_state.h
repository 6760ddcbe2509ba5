#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend {

/// Options of `copy_state`.
struct CopyStateOptions {
  bool strict = true;  ///< true: missing and unexpected names are errors
  bool cast = false;   ///< true: tensors are cast to the dtypes in the destination
};

/// Returns an error message if `tensor` is not a dense tensor with data, else an empty string.
ATTEND_API std::string why_not_dense(const torch::Tensor& tensor);

/// Copies each tensor of `source` into the tensor with the same name in `destination`, without
/// recording gradients. Throws InputError if tensors have the wrong shape or dtype or, if `strict`,
/// are missing or unexpected; `destination` is then unchanged. The message lists all of these
/// tensors and begins with "the `what` does not match the model".
ATTEND_API IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                                       const std::map<std::string, torch::Tensor>& source,
                                       const std::string& what,
                                       const CopyStateOptions& options = {});

}  // namespace attend
