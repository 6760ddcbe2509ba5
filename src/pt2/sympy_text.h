#pragma once

#include "attend/api.h"
#include "program/size.h"

#include <string>
#include <string_view>

namespace attend::pt2 {

/// Returns an expression in the form of SymPy's `srepr`, which archives contain, such as
/// "Add(Integer(1), Symbol('s0', positive=True, integer=True))".
ATTEND_API std::string sympy_text(const program::Expression& expression);

/// Parses the text of `sympy_text`. Returns `Expression::other` for another text.
ATTEND_API program::Expression parse_sympy(std::string_view text);

}  // namespace attend::pt2
