#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

namespace attend::program {

// These functions convert an enum value of torch.export's schema to LibTorch's enum, whose values
// are different. They throw InputError for unsupported values.
ATTEND_API c10::ScalarType dtype_of(int64_t value);
ATTEND_API c10::Layout layout_of(int64_t value);
ATTEND_API c10::MemoryFormat memory_format_of(int64_t value);

// These functions convert LibTorch's enum to the enum value of the schema. They throw InputError
// for unsupported values.
ATTEND_API int64_t schema_enum(c10::ScalarType dtype);
ATTEND_API int64_t schema_enum(c10::Layout layout);
ATTEND_API int64_t schema_enum(c10::MemoryFormat format);

/// Converts a device of LibTorch to the struct Device of the schema.
ATTEND_API Device device_of(const c10::Device& device);

}  // namespace attend::program
