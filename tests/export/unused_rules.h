#pragma once

#include "export/export_case.h"

#include <string>
#include <vector>

namespace attend {

/// The ONNX exporter has rules with names such as "add.Tensor". Returns the names of the rules that
/// no case uses.
std::vector<std::string> unused_rules(const std::vector<ExportCase>& cases);

}  // namespace attend
