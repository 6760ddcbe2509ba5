#pragma once

#include "io/zip_archive.h"
#include "pt2/archive_layout.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// Adds the weights that are listed in the config of a folder to `weights`, by name. Does nothing
/// if the archive has no such config. Weights with the same entry share memory. Throws InputError
/// if a weight has more elements than its bytes contain.
void read_weights(const ZipArchive& archive, const WeightsLayout& layout, torch::Device device,
                  std::map<std::string, torch::Tensor>& weights);

}  // namespace attend::pt2
