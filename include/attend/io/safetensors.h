#pragma once

#include "attend/api.h"
#include "attend/module_ref.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Content of a safetensors file.
struct Safetensors {
  std::map<std::string, torch::Tensor> tensors = {};  ///< tensors by name
  std::map<std::string, std::string> metadata = {};   ///< the header's `__metadata__`
};

/// Writes a safetensors file, which Python's `safetensors.torch.load_file` can read. An existing
/// file is replaced atomically. Throws c10::ValueError for a tensor without dense data, such as a
/// sparse tensor, and for a dtype that safetensors does not support. Float4_e2m1fn_x2 is stored as
/// F4, with two elements per byte.
///
///     save_safetensors("model.safetensors", {.tensors = state_dict(model)});
ATTEND_API void save_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// Reads a safetensors file. Safe for untrusted files. Throws InputError if the file does not exist
/// or is malformed, or if it contains a dtype that LibTorch does not have (F6_E2M3 and F6_E3M2).
///
///     auto weights = load_safetensors("model.safetensors").tensors;
ATTEND_API Safetensors load_safetensors(const std::filesystem::path& path);

/// Returns all parameters and buffers of a module by name, without copying them.
ATTEND_API std::map<std::string, torch::Tensor> state_dict(ConstModuleRef module);

/// Options of `load_state_dict`.
struct LoadStateDictOptions {
  bool strict = true;  ///< true: missing and unexpected names are errors
};

/// Names of tensors that are only in a module or only in a state dict.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     ///< only in the module; their tensors are unchanged
  std::vector<std::string> unexpected_keys;  ///< only in the state dict
};

/// Copies `tensors` into the parameters and buffers of a module. The dtypes and devices of the
/// parameters and buffers do not change. With `strict = false`, returns the missing and unexpected
/// names. Throws InputError if a shape is wrong, or if a dtype cannot be cast (for example, float32
/// cannot be cast to int64). With `strict = true`, also throws InputError if a name is missing or
/// unexpected. The message lists all errors, and names a prefix such as `module.` that most
/// unmatched names have in excess. If this function throws an InputError, the module is
/// unchanged.
///
///     load_state_dict(model, load_safetensors("model.safetensors").tensors);
///     auto keys = load_state_dict(model, tensors, {.strict = false});
ATTEND_API IncompatibleKeys load_state_dict(ModuleRef module,
                                            const std::map<std::string, torch::Tensor>& tensors,
                                            const LoadStateDictOptions& options = {});

}  // namespace attend
