#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace attend::program {

/// A size that depends on the values of a tensor, such as the size of masked_select.
struct DataDependentSize {
  /// Two sizes with the same origin are equal, for example the number of elements that two
  /// operators select with the same mask.
  std::string origin;
  /// True if the tensor is computed from inputs of the program. False, for example, if the tensor
  /// is a mask that is a buffer.
  bool depends_on_inputs = true;
};

/// Returns the sizes that depend on the values of tensors, by name of the tensor that has the size
/// and index of the dimension. Requires the dtypes and ranks in `program.tensors`.
ATTEND_API std::map<std::pair<std::string, std::size_t>, DataDependentSize> data_dependent_sizes(
    const ExportedProgram& program);

}  // namespace attend::program
