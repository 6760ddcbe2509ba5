#pragma once

#include "attend/api.h"
#include "io/zip_archive.h"
#include "program/exported_program.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// Contents of a .pt2 archive.
struct Archive {
  std::string model;  ///< name of the entry that contains the program
  program::ExportedProgram program;
  /// Parameters, buffers and constants by `Input::target`.
  std::map<std::string, torch::Tensor> weights;
};

/// Reads the program `model` of an archive; see `Pt2LoadOptions::model`. Throws InputError if the
/// archive is invalid. The message names the archive entry.
ATTEND_API Archive read_archive(const ZipArchive& zip, torch::Device device,
                                const std::string& model = {});

}  // namespace attend::pt2
