#pragma once

#include "attend/api.h"

#include <string>
#include <vector>

namespace attend {

/// Returns a short list of names of tensors: names that differ only in numbers between dots are one
/// element, for example "blocks.{0..11}.norm1.weight (12 names)". Each element stands for exactly
/// its names: numbers are joined only if all of their combinations are in `names`.
ATTEND_API std::vector<std::string> group_names(const std::vector<std::string>& names);

}  // namespace attend
