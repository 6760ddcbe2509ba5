#pragma once

#include "attend/api.h"

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace attend::program {

/// An operator on Python numbers and SymInts, such as _operator.mul.
using SymOperator = c10::IValue (*)(const std::vector<c10::IValue>&);
/// Returns the operator with the given target and number of arguments, or nullptr if there is none.
ATTEND_API SymOperator find_sym_operator(const std::string& target, std::size_t arguments);

}  // namespace attend::program
