#pragma once

#include "export/export_case.h"

#include <string>
#include <vector>

namespace attend {

/// The rules for ONNX that none of the cases needs, by operator and overload.
std::vector<std::string> unused_rules(const std::vector<ExportCase>& cases);

}  // namespace attend
