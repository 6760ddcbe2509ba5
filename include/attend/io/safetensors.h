#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace attend {

/// The content of a safetensors file: tensors by name, and text by key.
struct Safetensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Writes a safetensors file, which Python's `safetensors.torch.load_file` reads; an existing file
/// is replaced whole. Throws c10::ValueError for a dtype that the format lacks.
///
///     save_safetensors("model.safetensors", {.tensors = state_dict(*model)});
void save_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// Reads a safetensors file of any origin: nothing in it can run. Throws InputError if it is
/// missing or malformed.
Safetensors load_safetensors(const std::filesystem::path& path);

/// All parameters and buffers of a module by name, as views: no copy is made.
std::map<std::string, torch::Tensor> state_dict(const torch::nn::Module& module);

/// Copies `tensors` into the parameters and buffers of a module. Throws InputError, listing each
/// name that is missing, unknown, or of another dtype or shape, before anything is changed.
void load_state_dict(torch::nn::Module& module,
                     const std::map<std::string, torch::Tensor>& tensors);

}  // namespace attend
