#pragma once

#include "attend/api.h"
#include "export/check_names.h"
#include "export/program/from_trace.h"

namespace attend::program {

/// Fills in the tensor metadata of a traced program: dtypes, sizes and strides. Runs the program at
/// several sizes to find the sizes and strides as expressions of the dynamic dimensions.
/// A size without such an expression becomes an unbacked symbol. For ONNX, strides have the
/// example's values. Throws WrongForInputs if the program rejects sizes within the ranges of the
/// dynamic dimensions. Throws std::runtime_error, with the name of the tensor, if the number of
/// dimensions of a tensor is not constant, or, for ONNX, if a size depends on the values of the
/// inputs, but is the same for all values that the exporter tries.
ATTEND_API void infer_tensor_meta(TracedProgram& traced, TargetFormat format);

}  // namespace attend::program
