#pragma once

#include "attend/api.h"
#include "attend/io/safetensors.h"

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Names of tensors that cannot be copied, by reason.
using NamesByProblem = std::map<std::string, std::vector<std::string>>;

/// Returns a list of all names, each with its problem. Adds the missing and unexpected names of
/// `keys`; if they differ from each other by a prefix, the list contains one of both names and
/// proposes to remove or add the prefix. `how`: end of this proposal, such as " with `rename`".
ATTEND_API std::string list_problems(NamesByProblem problems, const IncompatibleKeys& keys,
                                     const std::string& how = "");

/// Returns an error message if `tensor` is not a dense tensor with data, else an empty string.
ATTEND_API std::string why_not_dense(const torch::Tensor& tensor);

/// Description of a tensor that is to be copied.
struct StateEntry {
  std::vector<int64_t> shape = {};
  torch::Dtype dtype = torch::kFloat;
  std::string problem = {};  ///< why the tensor cannot be copied anywhere; empty if it can
};

/// Options of `check_state`.
struct CheckStateOptions {
  bool strict = true;  ///< true: missing and unexpected names are errors
  bool cast = false;   ///< true: tensors are cast to the dtypes in the destination
  std::optional<torch::Dtype> dtype = {};  ///< to which the destination's float tensors are cast
  std::string how_to_rename = {};          ///< `how` of `list_problems`
};

/// Compares names, shapes and dtypes of `source` with `destination`, and returns the names that are
/// only in one of them. A tensor with several names in `destination` needs only one of them in
/// `source`. Throws InputError if tensors cannot be copied or, if `strict`, names are missing or
/// unexpected. The message lists all of them and begins with "the `what` does not match the model".
ATTEND_API IncompatibleKeys check_state(const std::map<std::string, torch::Tensor>& destination,
                                        const std::map<std::string, StateEntry>& source,
                                        const std::string& what, const CheckStateOptions& options);

/// Copies each tensor of `source` into the tensor with the same name in `destination`, without
/// recording gradients. Throws InputError as `check_state`; `destination` is then unchanged.
ATTEND_API IncompatibleKeys copy_state(std::map<std::string, torch::Tensor> destination,
                                       const std::map<std::string, torch::Tensor>& source,
                                       const std::string& what,
                                       const CheckStateOptions& options = {});

}  // namespace attend
