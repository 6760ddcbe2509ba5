#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace attend::program {

/// Returns the name of the symbol if the expression is a single symbol, else "".
ATTEND_API std::string symbol_in(const std::string& expression);

/// Returns the SymPy expression of a symbol that stands for a dynamic size. `name`: name of the
/// symbol, such as "s0".
ATTEND_API std::string size_symbol(const std::string& name);

/// Returns the SymPy expression of an unbacked symbol. `name`: name of the symbol, such as "u0". An
/// unbacked symbol stands for a size that has no known expression in the dynamic sizes, for example
/// because the size depends on the values of tensors. An unbacked symbol has no size hint.
ATTEND_API std::string unbacked_symbol(const std::string& name);

/// Returns true if an expression contains an unbacked symbol.
ATTEND_API bool is_unbacked(const std::string& expression);

/// Returns the value of a size. `symbols` contains the values of the symbols. The expression may
/// contain Integer, Symbol, Add, Mul, FloorDiv, Min and Max. Throws std::overflow_error if a sum or
/// product exceeds 64 bits.
///
///     evaluate(size, {{"s0", 7}});
ATTEND_API int64_t evaluate(const Size& size, const std::map<std::string, int64_t>& symbols);

/// Returns a lower and an upper bound of a size, for symbols within their ranges. If a symbol of
/// the size has no maximum, the upper bound is the largest int64_t. The bounds are unknown if the
/// expression contains a negative factor, or if a sum or product exceeds 64 bits. Returns the
/// smallest and the largest int64_t in these cases.
ATTEND_API std::pair<int64_t, int64_t> bounds_of(const Size& size,
                                                 const std::map<std::string, Range>& ranges);

/// Functions of sizes. If all arguments are integers, the result is an integer without an
/// expression. The integers in expressions are combined: the result of
/// floor_div(floor_div(s0, 2) + 1, 3) is FloorDiv(Add(2, s0), 6).
ATTEND_API Size operator+(const Size& a, const Size& b);
ATTEND_API Size operator-(const Size& a, const Size& b);
ATTEND_API Size operator*(const Size& a, const Size& b);
ATTEND_API Size floor_div(const Size& a, int64_t divisor);
ATTEND_API Size min(const Size& a, const Size& b);
ATTEND_API Size max(const Size& a, const Size& b);

}  // namespace attend::program
