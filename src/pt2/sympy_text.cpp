#include "pt2/sympy_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace attend::pt2 {
namespace {

using program::Expression;
using Kind = Expression::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 7> kFunctions{
    {{Kind::add, "Add"},
     {Kind::mul, "Mul"},
     {Kind::floor_div, "FloorDiv"},
     {Kind::mod, "PythonMod"},
     {Kind::mod, "Mod"},  // of arguments that are not negative
     {Kind::min, "Min"},
     {Kind::max, "Max"}}};

// The square root, rounded down. torch.export has no single function for it.
constexpr std::string_view kSqrt = "TruncToInt(FloatPow(ToFloat(";
constexpr std::string_view kSqrtEnd = "), Float('0.5', precision=53)))";

/// Reads one expression after the other from a text. All functions return nullopt if the text does
/// not begin with what they read.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }

  /// `depth`: number of functions around the expression. Limited, because a file may contain any
  /// text.
  std::optional<Expression> expression(int depth = 0) {
    constexpr int kMaxDepth = 100;
    if (depth > kMaxDepth) return std::nullopt;
    if (skip("Integer(")) return integer();
    if (skip("Symbol('")) return symbol();
    if (skip(kSqrt)) {
      const auto argument = expression(depth + 1);
      if (!argument || !skip(kSqrtEnd)) return std::nullopt;
      return Expression(Kind::sqrt, {*argument});
    }
    for (const auto& [kind, name] : kFunctions) {
      if (text_.starts_with(name) && skip(fmt::format("{}(", name))) return call(kind, depth);
    }
    return std::nullopt;
  }

 private:
  std::optional<Expression> call(Kind kind, int depth) {
    std::vector<Expression> arguments;
    do {
      auto argument = expression(depth + 1);
      if (!argument) return std::nullopt;
      arguments.push_back(std::move(*argument));
    } while (skip(", "));
    const bool is_binary = kind == Kind::floor_div || kind == Kind::mod;
    if (!skip(")") || (is_binary && arguments.size() != 2)) return std::nullopt;
    return Expression(kind, std::move(arguments));
  }

  std::optional<Expression> integer() {
    const auto digits = until(')');
    int64_t value = 0;
    if (!digits) return std::nullopt;
    const auto [end, error] = std::from_chars(digits->begin(), digits->end(), value);
    if (error != std::errc() || end != digits->end()) return std::nullopt;
    return Expression(value);
  }

  std::optional<Expression> symbol() {
    const auto name = until('\'');
    const auto assumptions = until(')');
    if (!name || !assumptions) return std::nullopt;
    const bool is_backed = assumptions->find("positive=True") != std::string_view::npos;
    return is_backed ? Expression::symbol(std::string(*name))
                     : Expression::unbacked(std::string(*name));
  }

  /// Returns the text before `end`, and skips `end`.
  std::optional<std::string_view> until(char end) {
    const auto length = text_.find(end);
    if (length == std::string_view::npos) return std::nullopt;
    const auto found = text_.substr(0, length);
    text_.remove_prefix(length + 1);
    return found;
  }

  bool skip(std::string_view prefix) {
    if (!text_.starts_with(prefix)) return false;
    text_.remove_prefix(prefix.size());
    return true;
  }

  std::string_view text_;  // text that is not yet read
};

}  // namespace

std::string sympy_text(const Expression& expression) {
  if (expression.is(Kind::integer)) return fmt::format("Integer({})", expression.integer());
  if (expression.is(Kind::symbol)) {
    return fmt::format("Symbol('{}', positive=True, integer=True)", expression.text());
  }
  if (expression.is(Kind::unbacked)) {
    return fmt::format("Symbol('{}', integer=True)", expression.text());
  }
  std::vector<std::string> arguments;
  for (const auto& argument : expression.arguments()) arguments.push_back(sympy_text(argument));
  if (expression.is(Kind::sqrt)) return fmt::format("{}{}{}", kSqrt, arguments.front(), kSqrtEnd);
  for (const auto& [kind, name] : kFunctions) {
    if (expression.is(kind)) return fmt::format("{}({})", name, fmt::join(arguments, ", "));
  }
  return expression.text();
}

Expression parse_sympy(std::string_view text) {
  Reader reader(text);
  const auto found = reader.expression();
  return found && reader.at_end() ? *found : Expression::other(std::string(text));
}

}  // namespace attend::pt2
