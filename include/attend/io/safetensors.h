#pragma once

#include "attend/api.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace attend {

/// Content of a safetensors file.
struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;  ///< tensors by name
  std::map<std::string, std::string> metadata;   ///< the header's `__metadata__`
};

/// Writes a safetensors file, which Python's `safetensors.torch.load_file` can read. An existing
/// file is replaced atomically. Throws c10::ValueError for a dtype that safetensors does not
/// support.
///
///     save_safetensors("model.safetensors", {.tensors = state_dict(*model)});
ATTEND_API void save_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// Reads a safetensors file. Safe for untrusted files. Throws InputError if the file does not exist
/// or is malformed.
///
///     auto weights = load_safetensors("model.safetensors").tensors;
ATTEND_API Safetensors load_safetensors(const std::filesystem::path& path);

/// Returns all parameters and buffers of a module by name, without copying them.
ATTEND_API std::map<std::string, torch::Tensor> state_dict(const torch::nn::Module& module);

/// Copies `tensors` into the parameters and buffers of a module. Throws InputError, listing every
/// missing or unknown name and every wrong dtype or shape; the module is then unchanged.
///
///     load_state_dict(*model, load_safetensors("model.safetensors").tensors);
ATTEND_API void load_state_dict(torch::nn::Module& module,
                                const std::map<std::string, torch::Tensor>& tensors);

}  // namespace attend
