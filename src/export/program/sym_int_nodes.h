#pragma once

#include "program/exported_program.h"

#include <ATen/core/interned_strings.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend::program {

/// A function of two sizes, and the operators that compute it in a trace and in a program.
struct SizeFunction {
  Expression::Kind kind;
  Size (*apply)(const Size& a, const Size& b);
  c10::Symbol symbol;
  std::string_view target;
};
inline constexpr std::array<SizeFunction, 6> kSizeFunctions{
    {{Expression::Kind::add, operator+, c10::aten::add, "_operator.add"},
     {Expression::Kind::mul, operator*, c10::aten::mul, "_operator.mul"},
     {Expression::Kind::floor_div, floor_div, c10::aten::floordiv, "_operator.floordiv"},
     {Expression::Kind::mod, mod, c10::aten::remainder, "_operator.mod"},
     {Expression::Kind::min, min, c10::prim::min, "torch.sym_min"},
     {Expression::Kind::max, max, c10::prim::max, "torch.sym_max"}}};

/// Returns a name that no tensor or SymInt of the program has: `base` or, if the program already
/// contains this name, `base` with a number appended, such as "sym_int_1".
std::string unique_name(const ExportedProgram& program, const std::string& base);

/// Returns the size that a node on SymInts computes. The metadata of its arguments must be set. A
/// node that returns a SymFloat has no such size.
Size computed_size(const ExportedProgram& program, const Node& node);

/// Appends nodes to a list of nodes. The new nodes compute SymInts. The object keeps references to
/// the program and to the list.
class SymIntNodes {
 public:
  SymIntNodes(ExportedProgram& program, std::vector<Node>& nodes)
      : program_(program), nodes_(nodes) {}

  /// Adds a node that reads the size of `tensor` in dimension `dimension`, and returns the name of
  /// the new SymInt. `size`: this size.
  SymbolName size_of(const TensorName& tensor, int64_t dimension, const Size& size);

  /// Each of these functions adds a node that computes a SymInt from `a` and `b`, and returns the
  /// name of the new SymInt. `b` is a SymInt or an integer.
  SymbolName sum(const SymbolName& a, const Argument& b) { return add(Kind::add, a, b); }
  SymbolName product(const SymbolName& a, const Argument& b) { return add(Kind::mul, a, b); }
  /// Rounds down.
  SymbolName quotient(const SymbolName& a, int64_t b) { return add(Kind::floor_div, a, b); }
  SymbolName min(const SymbolName& a, const Argument& b) { return add(Kind::min, a, b); }
  SymbolName max(const SymbolName& a, const Argument& b) { return add(Kind::max, a, b); }

 private:
  using Kind = Expression::Kind;
  SymbolName add(Kind function, const SymbolName& a, const Argument& b);

  ExportedProgram& program_;
  std::vector<Node>& nodes_;
};

}  // namespace attend::program
