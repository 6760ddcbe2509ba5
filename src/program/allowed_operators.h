#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <set>
#include <string>

namespace attend::program {

/// Operators that a program may call in addition to the always allowed operators. The always
/// allowed operators are the ATen operators that LibTorch tags as core or pointwise, the ATen
/// operators that allowed_operators.cpp lists by name, and the in-place variants of both. There are
/// two exceptions: aten::resize with its in-place variant, and all overloads that write their
/// result to an argument, such as add.out. The always allowed operators only compute tensors and
/// numbers. They check their arguments, except for the recurrent layers on the CPU.
struct AllowedOperators {
  std::set<std::string> namespaces = {};  ///< all operators of these namespaces are allowed
  std::set<std::string> names = {};       ///< names of operators: "aten::ctc_loss"
};

/// Allows all operators that a program calls. For programs from a trusted source, such as the
/// traced programs of the exporters, which may call operators of any namespace.
ATTEND_API AllowedOperators operators_called_by(const ExportedProgram& program);

/// Throws InputError if the operator `name`, e.g. "aten::add", is not allowed. Does not check that
/// the operator exists. `aten::from_file`, which maps a file into memory, is never allowed.
ATTEND_API void check_allowed(const AllowedOperators& allowed, const c10::OperatorName& name);

}  // namespace attend::program
