#pragma once

#include <filesystem>

namespace attend {

/// What a file of weights or of a model is.
enum class FileKind {
  safetensors,  ///< a length and a JSON header
  zip,          ///< an archive, as TorchScript, .pt2 and torch.save write it
};

/// Tells by the first bytes of a file, never by its name, what it is. Throws InputError, naming
/// what was found, if it is neither.
///
///     file_kind("model.safetensors") == FileKind::safetensors
FileKind file_kind(const std::filesystem::path& path);

}  // namespace attend
