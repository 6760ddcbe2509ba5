#pragma once

#include "attend/api.h"
#include "attend/io/safetensors_header.h"
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

/// The tensors of a model in safetensors files, which are read one at a time. Safe for untrusted
/// files.
///
///     SafetensorsFiles files("llama/model.safetensors.index.json");
///     auto weight = files.read("lm_head.weight");
class ATTEND_API SafetensorsFiles {
 public:
  /// Reads the headers. `path`: a safetensors file, or the index of a model in several files
  /// (`model.safetensors.index.json`), all of which are in the folder of the index. A file may be a
  /// symbolic link into the folder `../../blobs`, as in the cache of Hugging Face. Throws
  /// InputError if a file is missing, malformed or elsewhere, or if the index and the headers of
  /// the files have different names of tensors.
  explicit SafetensorsFiles(const std::filesystem::path& path);

  /// Returns the header entries of all tensors, by name.
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  /// Reads a tensor of `entries`. Throws InputError if its dtype is one that LibTorch does not
  /// have.
  torch::Tensor read(const std::string& name) const;
  /// Copies a tensor of `entries` into `destination`, which has its shape and may have another
  /// dtype or device. Throws InputError like `read`.
  void read_into(const std::string& name, const torch::Tensor& destination) const;
  /// Returns the file that contains a tensor of `entries`.
  const std::filesystem::path& file_of(const std::string& name) const;

 private:
  struct Place {
    std::filesystem::path file;
    uint64_t offset;  // of the first byte in the file
  };
  void add(const std::filesystem::path& file);
  void read_values(const std::string& name, const torch::Tensor& tensor) const;

  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, Place> places_;
};

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
