#pragma once

#include "export/program/program.h"

#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

namespace attend::program {

// What the schema's numbers stand for, which are not LibTorch's. They throw InputError for others.
c10::ScalarType dtype_of(int64_t number);
c10::Layout layout_of(int64_t number);
c10::MemoryFormat memory_format_of(int64_t number);

// The schema's numbers. They throw InputError for what has none.
int64_t number_of(c10::ScalarType dtype);
int64_t number_of(c10::Layout layout);
int64_t number_of(c10::MemoryFormat format);

/// As the schema names it.
Device device_of(const c10::Device& device);

}  // namespace attend::program
