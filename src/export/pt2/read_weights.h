#pragma once

#include "export/pt2/archive_layout.h"
#include "io/zip_archive.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// Adds the weights that the config of a folder lists, if it is there, under their names. Those of
/// the same bytes share them. Throws InputError for weights that their bytes do not hold.
void read_weights(const ZipArchive& archive, const WeightsLayout& layout, torch::Device device,
                  std::map<std::string, torch::Tensor>& weights);

}  // namespace attend::pt2
