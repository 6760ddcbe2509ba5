#pragma once

#include "io/zip_archive.h"
#include "pt2/archive_layout.h"

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::pt2 {

/// Reads the weights that the config file of `layout` lists, and adds them to `weights` by name.
/// Does nothing if the archive does not contain the config file. Weights whose bytes are in the
/// same archive entry share memory. Throws InputError if an element of a weight is outside of the
/// entry that contains the weight's bytes.
void read_weights(const ZipArchive& archive, const WeightsLayout& layout, torch::Device device,
                  std::map<std::string, torch::Tensor>& weights);

}  // namespace attend::pt2
