#pragma once

#include <filesystem>

namespace attend {

/// What a file of weights or of a model is.
enum class FileKind {
  safetensors,  ///< a length and a JSON header
  torchscript,  ///< an archive with code
  pt2,          ///< an archive of torch.export
};

/// Tells by the content of a file, never by its name, what it is, and runs nothing of it. Throws
/// InputError, naming what was found, if it is none of them.
///
///     file_kind("model.safetensors") == FileKind::safetensors
FileKind file_kind(const std::filesystem::path& path);

}  // namespace attend
