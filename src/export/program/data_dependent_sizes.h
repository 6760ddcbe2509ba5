#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace attend::program {

/// A size that depends on the values of a tensor, such as the size of the result of masked_select.
struct DataDependentSize {
  /// Two sizes with the same origin are equal. For example, the numbers of elements selected by
  /// x.index({mask}) and y.index({mask}) have the same origin.
  std::string origin;
  /// True if the values that determine the size depend on inputs of kind InputKind::user. False,
  /// for example, if these values are a mask that is a buffer.
  bool depends_on_inputs = true;
};

/// Data-dependent sizes. The key is the name of the tensor and the index of the dimension.
using DataDependentSizes = std::map<std::pair<std::string, std::size_t>, DataDependentSize>;

/// Returns the sizes in `program` that depend on the values of tensors. `tensors`: metadata with
/// the dtype and the rank of each tensor, by name.
ATTEND_API DataDependentSizes data_dependent_sizes(
    const ExportedProgram& program, const std::map<std::string, TensorMeta>& tensors);

}  // namespace attend::program
