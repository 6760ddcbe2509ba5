#pragma once

#include "program/exported_program.h"
#include "program/value_table.h"

#include <ATen/core/jit_type.h>
#include <torch/types.h>

namespace attend::program {

/// Returns the source of an argument that has type `type` in the operator's schema. Arguments that
/// are devices are replaced by `device`. Throws InputError if the argument contains a name that is
/// undefined or used before its definition.
Source source_of(const Argument& argument, const c10::TypePtr& type, torch::Device device,
                 const ValueTable& table);

}  // namespace attend::program
