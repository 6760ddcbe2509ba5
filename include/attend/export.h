#pragma once

/// Includes all headers of the CMake target attend::export: TorchScript, .pt2 and ONNX exporters.

#include "attend/export/export_options.h"
#include "attend/export/onnx.h"
#include "attend/export/onnx_contents.h"
#include "attend/export/onnx_translation.h"
#include "attend/export/pt2.h"
#include "attend/export/torchscript.h"
#include "attend/export/torchscript_contents.h"
#include "attend/export/tree_spec.h"
#include "attend/model_export/export_plan.h"
