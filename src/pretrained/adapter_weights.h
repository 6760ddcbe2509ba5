#pragma once

#include "attend/api.h"
#include "pretrained/architecture.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Returns the shapes of the tensors in the folder of an adapter of PEFT, by their names without
/// the prefixes of PEFT and of the architecture. Throws InputError if the file is missing or
/// malformed.
ATTEND_API std::map<std::string, std::vector<int64_t>> shapes_in_adapter(
    const std::filesystem::path& folder, const Architecture& architecture);

/// True if an adapter with tensors of these shapes changes the linear layer of this weight, such as
/// lm_head.weight.
bool adapts(const std::map<std::string, std::vector<int64_t>>& shapes, const std::string& weight);

}  // namespace attend
