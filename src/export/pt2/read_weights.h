#pragma once

#include "io/zip_archive.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// Adds the weights that the entry `folder` + `config` lists, if it is there, under their names.
/// Those of the same bytes share them. Throws InputError for weights that their bytes do not hold.
void read_weights(const ZipArchive& archive, const std::string& folder, const std::string& config,
                  torch::Device device, std::map<std::string, torch::Tensor>& weights);

}  // namespace attend::pt2
