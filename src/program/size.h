#pragma once

#include "attend/api.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attend::program {

/// An expression of sizes: a tree of integers, symbols and functions. Expressions are equal if
/// their trees are equal. Copies share the tree.
class ATTEND_API Expression {
 public:
  enum class Kind {
    integer,
    symbol,     ///< a dynamic size
    unbacked,   ///< a symbol without a known expression, see `unbacked`
    add,        ///< sum of its arguments
    mul,        ///< product of its arguments
    floor_div,  ///< quotient of two arguments, rounded down
    mod,        ///< remainder of `floor_div`
    min,
    max,
    sqrt,   ///< square root of its argument, rounded down
    other,  ///< text in a file that is not such a tree
  };

  /// Makes the empty expression, which belongs to a `Size` that is an integer.
  Expression() = default;
  explicit Expression(int64_t integer);
  /// Calls a function. Does not simplify.
  Expression(Kind function, std::vector<Expression> arguments);
  static Expression symbol(const std::string& name) { return {Kind::symbol, name}; }
  /// Makes a symbol for a size that has no known expression in the dynamic sizes, for example
  /// because the size depends on the values of tensors. An unbacked symbol has no size hint.
  static Expression unbacked(const std::string& name) { return {Kind::unbacked, name}; }
  static Expression other(const std::string& text) { return {Kind::other, text}; }

  bool empty() const { return node_ == nullptr; }
  bool is(Kind kind) const { return node_ != nullptr && node_->kind == kind; }
  /// Returns true if the tree has a node of this kind.
  bool contains(Kind kind) const;

  // These functions require an expression that is not empty.
  Kind kind() const { return node_->kind; }
  int64_t integer() const { return node_->integer; }
  const std::string& text() const { return node_->text; }  ///< the name of a symbol, or other text
  const std::vector<Expression>& arguments() const { return node_->arguments; }
  /// Returns the number of nodes of the tree. Nodes of shared subtrees count each time.
  std::size_t num_nodes() const { return node_->num_nodes; }

  ATTEND_API friend std::strong_ordering operator<=>(const Expression& a, const Expression& b);
  friend bool operator==(const Expression& a, const Expression& b) { return std::is_eq(a <=> b); }

 private:
  struct Node {
    Kind kind;
    int64_t integer = 0;
    std::string text = {};
    std::vector<Expression> arguments = {};
    std::size_t num_nodes = 1;
  };
  Expression(Kind kind, const std::string& text);

  std::shared_ptr<const Node> node_;
};

/// A size, stride, storage offset or SymInt: an integer, or an expression.
struct Size {
  /// The integer, or the size hint: one possible value of the expression; 0 if there is no hint.
  int64_t value = 0;
  Expression expression = {};  ///< empty for an integer
};

/// Range constraint of a symbol.
struct Range {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

/// Returns the name of the symbol if the size is a single symbol, backed or unbacked, else "".
ATTEND_API std::string symbol_in(const Size& size);

/// Returns a size for messages, such as "2*s0 + 1".
ATTEND_API std::string text_of(const Size& size);

/// Returns the value of a size. `symbols` contains the values of the symbols. Throws
/// std::overflow_error if a sum or product exceeds 64 bits.
///
///     evaluate({.expression = Expression::symbol("s0")}, {{"s0", 7}});
ATTEND_API int64_t evaluate(const Size& size, const std::map<std::string, int64_t>& symbols);

/// Returns a lower and an upper bound of a size, for symbols within their ranges. An unknown bound
/// is the smallest or the largest int64_t.
ATTEND_API std::pair<int64_t, int64_t> bounds_of(const Size& size,
                                                 const std::map<std::string, Range>& ranges);

/// Functions of sizes. If all arguments are integers, the result is an integer. Integers in
/// expressions are combined: the result of floor_div(floor_div(s0, 2) + 1, 3) is (s0 + 2) // 6.
ATTEND_API Size operator+(const Size& a, const Size& b);
ATTEND_API Size operator-(const Size& a, const Size& b);
ATTEND_API Size operator*(const Size& a, const Size& b);
ATTEND_API Size floor_div(const Size& a, int64_t divisor);
ATTEND_API Size floor_div(const Size& a, const Size& divisor);
ATTEND_API Size mod(const Size& a, const Size& divisor);
ATTEND_API Size min(const Size& a, const Size& b);
ATTEND_API Size max(const Size& a, const Size& b);
ATTEND_API Size sqrt(const Size& a);

}  // namespace attend::program
