#pragma once

#include "attend/export/export_options.h"

#include <map>
#include <string>
#include <vector>

namespace attend {

/// The dynamic dimensions, of those with one name the first alone.
std::vector<DynamicDimension> distinct(const std::vector<DynamicDimension>& dynamic);

/// The example's sizes by the names of the dynamic dimensions.
std::map<std::string, int64_t> sizes_of(const std::vector<torch::Tensor>& example,
                                        const std::vector<DynamicDimension>& dynamic);

/// New tensors like the example's, of other sizes: what is there, repeated or cut, from `shift` on.
/// `sizes` are by the names of the dynamic dimensions.
std::vector<torch::Tensor> resize(const std::vector<torch::Tensor>& example,
                                  const std::vector<DynamicDimension>& dynamic,
                                  const std::map<std::string, int64_t>& sizes, int64_t shift = 0);

}  // namespace attend
