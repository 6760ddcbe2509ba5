#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace attend::program {

/// What Python computes with sizes between the calls of operators, as _operator.mul: the function
/// of a target and of so many numbers, or nothing if there is none of that name.
using NumberOperator = c10::IValue (*)(const std::vector<c10::IValue>&);
NumberOperator find_number_operator(const std::string& target, std::size_t arguments);

}  // namespace attend::program
