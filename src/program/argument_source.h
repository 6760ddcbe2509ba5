#pragma once

#include "program/exported_program.h"
#include "program/value_table.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend::program {

using Values = std::vector<c10::IValue>;  // values at run time, indexed by slot (see ValueTable)

/// Reads the value of an operator's argument, or of an output of the program, at run time.
struct Source {
  std::function<c10::IValue(const Values&)> read;
  std::vector<std::size_t> slots;  ///< slots that `read` reads
};

/// Returns the source of an argument with a constant value.
Source constant_source(const c10::IValue& value);

/// Returns the source of an argument that has type `type` in the operator's schema. Arguments that
/// are devices are replaced by `device`. Throws InputError if the argument contains a name that is
/// undefined or used before its definition.
Source source_of(const Argument& argument, const c10::TypePtr& type, torch::Device device,
                 const ValueTable& table);

}  // namespace attend::program
