#pragma once

#include "export/program/program.h"
#include "io/zip_archive.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// What an archive of torch.export holds.
struct Archive {
  std::string model;  ///< the entry that the program was read from
  program::Program program;
  std::map<std::string, torch::Tensor> weights;  ///< and constants, by the names of the program
};

/// Throws InputError, naming the entry, for an archive that is not as it should be.
Archive read_archive(const ZipArchive& zip, torch::Device device);

}  // namespace attend::pt2
