#pragma once

#include <filesystem>

namespace attend {

/// Exports modules with nested inputs and outputs to nested.pt, nested.pt2, nested.onnx and so on.
/// Writes inputs and expected outputs for nested_test.py.
void write_nested_cases(const std::filesystem::path& folder);

}  // namespace attend
