#pragma once

#include "export/program/exported_program.h"

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

namespace attend::program {

// Convert enum values of torch.export's schema, which differ from LibTorch's. Throw InputError for
// unsupported values.
c10::ScalarType dtype_of(int64_t value);
c10::Layout layout_of(int64_t value);
c10::MemoryFormat memory_format_of(int64_t value);

// Return the schema's enum values. Throw InputError for values that the schema lacks.
int64_t schema_enum(c10::ScalarType dtype);
int64_t schema_enum(c10::Layout layout);
int64_t schema_enum(c10::MemoryFormat format);

/// Returns the device as in the schema.
Device device_of(const c10::Device& device);

}  // namespace attend::program
