#pragma once

#include "export/export_case.h"

#include <string>
#include <vector>

namespace attend {

/// Returns the ONNX rules, such as "add.Tensor", that none of the cases uses.
std::vector<std::string> unused_rules(const std::vector<ExportCase>& cases);

}  // namespace attend
