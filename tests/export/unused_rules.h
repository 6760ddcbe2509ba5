#pragma once

#include "export/export_case.h"

#include <string>
#include <vector>

namespace attend {

/// Returns the names of the rules of the ONNX exporter, such as "add.Tensor", that no case uses.
std::vector<std::string> unused_rules(const std::vector<ExportCase>& cases);

}  // namespace attend
