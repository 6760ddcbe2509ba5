#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/jinja/builtins.h"
#include "tokenizers/jinja/lexer.h"
#include "tokenizers/jinja/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

namespace attend::jinja {
namespace {

using Kind = Expression::Kind;
using Operands = std::vector<ExpressionPtr>;

/// Maximum nesting of expressions and of statements, since both are parsed and evaluated by
/// recursion.
constexpr int64_t kMaxNesting = 100;
constexpr std::size_t kMaxTemplate = std::size_t{1} << 20;  // bytes

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  Body parse() { return parse_body({}); }

 private:
  /// Counts the nesting of expressions and statements.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting)
        parser_.fail(fmt::format("found more than {} nested parts", kMaxNesting));
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] void fail(const std::string& message) const { fail_at(peek().line, message); }
  [[noreturn]] void fail_at(int64_t line, const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", name_, line, message));
  }

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() {
    const auto& token = peek();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool take_if_name(std::string_view name) {
    if (!peek().is_name(name)) return false;
    take();
    return true;
  }
  bool take_if_symbol(std::string_view symbol) {
    if (!peek().is_symbol(symbol)) return false;
    take();
    return true;
  }

  /// Returns a token for messages.
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case TokenKind::data:
        return "text";
      case TokenKind::variable_begin:
        return "'{{'";
      case TokenKind::variable_end:
        return "'}}'";
      case TokenKind::block_begin:
        return "'{%'";
      case TokenKind::block_end:
        return "'%}'";
      case TokenKind::end:
        return "the end of the template";
      default:
        return fmt::format("'{}'", printable(token.text.substr(0, 60)));
    }
  }

  void expect_symbol(std::string_view symbol) {
    if (!take_if_symbol(symbol))
      fail(fmt::format("expected '{}', found {}", symbol, shown(peek())));
  }
  void expect_name(std::string_view name) {
    if (!take_if_name(name)) fail(fmt::format("expected '{}', found {}", name, shown(peek())));
  }
  void expect(TokenKind kind, const char* what) {
    if (peek().kind != kind) fail(fmt::format("expected {}, found {}", what, shown(peek())));
    take();
  }
  std::string expect_any_name() {
    if (peek().kind != TokenKind::name)
      fail(fmt::format("expected a name, found {}", shown(peek())));
    return take().text;
  }

  ExpressionPtr make(Kind kind, int64_t line, Operands operands, std::string name = {},
                     std::vector<std::string> names = {}) const {
    auto expression = std::make_unique<Expression>(
        Expression{.kind = kind, .line = line, .name = std::move(name), .names = std::move(names)});
    for (const auto& operand : operands) {
      if (operand != nullptr) expression->depth = std::max(expression->depth, operand->depth + 1);
    }
    // A chain such as a + b + c has this depth too, without nesting in the parser.
    if (expression->depth > kMaxNesting)
      fail_at(line, fmt::format("found more than {} nested parts", kMaxNesting));
    expression->operands = std::move(operands);
    return expression;
  }
  template <typename... Operand>
  ExpressionPtr make_of(Kind kind, int64_t line, std::string name, Operand... operand) const {
    Operands operands;
    (operands.push_back(std::move(operand)), ...);
    return make(kind, line, std::move(operands), std::move(name));
  }
  static ExpressionPtr constant(int64_t line, Value value) {
    return std::make_unique<Expression>(
        Expression{.kind = Kind::constant, .line = line, .value = std::move(value)});
  }

  // Statements

  /// Parses until a tag with one of the names `ends`, which is not removed, or the end of the
  /// template if there are none.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Body body;
    while (peek().kind != TokenKind::end) {
      const auto line = peek().line;
      if (peek().kind == TokenKind::data) {
        add(body, {.kind = Statement::Kind::data, .line = line, .text = take().text});
      } else if (peek().kind == TokenKind::variable_begin) {
        take();
        Statement output{.kind = Statement::Kind::output, .line = line};
        output.expressions.push_back(parse_tuple());
        expect(TokenKind::variable_end, "'}}'");
        add(body, std::move(output));
      } else {
        expect(TokenKind::block_begin, "'{%'");
        if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return peek().is_name(end); })) {
          return body;
        }
        add(body, parse_statement());
        expect(TokenKind::block_end, "'%}'");
      }
    }
    if (ends.size() > 0)
      fail(fmt::format("expected '{{% {} %}}', found the end of the template", *ends.begin()));
    return body;
  }

  static void add(Body& body, Statement statement) {
    body.push_back(std::make_unique<const Statement>(std::move(statement)));
  }

  Body parse_block(std::initializer_list<std::string_view> ends) {
    take_if_symbol(":");
    expect(TokenKind::block_end, "'%}'");
    return parse_body(ends);
  }

  /// Parses a body with variables of its own, which `break` does not leave.
  Body parse_scope(std::initializer_list<std::string_view> ends) {
    const auto loops = std::exchange(loops_, 0);
    ++scopes_;
    auto body = parse_block(ends);
    --scopes_;
    loops_ = loops;
    return body;
  }

  Statement parse_statement() {
    const auto line = peek().line;
    const auto name = expect_any_name();
    if (name == "if") return parse_branch(line);
    if (name == "for") return parse_loop(line);
    if (name == "set") return parse_set(line);
    if (name == "macro") return parse_macro(line);
    if (name == "generation") {
      Statement generation{.kind = Statement::Kind::generation, .line = line};
      generation.bodies.push_back(parse_scope({"endgeneration"}));
      expect_name("endgeneration");
      return generation;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail_at(line, fmt::format("found '{}' outside of a loop", name));
      return {
          .kind = name == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop,
          .line = line};
    }
    fail_at(line, fmt::format("the tag '{}' is unknown or not supported; supported are if, for, "
                              "set, macro, generation, break, continue and raw",
                              name));
  }

  Statement parse_branch(int64_t line) {
    Statement branch{.kind = Statement::Kind::branch, .line = line};
    do {
      branch.expressions.push_back(parse_tuple(/*with_condition=*/false));
      branch.bodies.push_back(parse_block({"endif", "elif", "else"}));
    } while (take_if_name("elif"));
    if (take_if_name("else")) branch.bodies.push_back(parse_block({"endif"}));
    expect_name("endif");
    return branch;
  }

  Statement parse_loop(int64_t line) {
    Statement loop{.kind = Statement::Kind::loop, .line = line};
    loop.targets = parse_targets(/*with_attribute=*/false);
    expect_name("in");
    loop.expressions.push_back(parse_tuple(/*with_condition=*/false));
    loop.expressions.push_back(take_if_name("if") ? parse_expression() : nullptr);
    if (peek().is_name("recursive")) fail("'recursive' loops are not supported");
    ++loops_;
    ++scopes_;
    loop.bodies.push_back(parse_block({"endfor", "else"}));
    --loops_;
    if (take_if_name("else")) loop.bodies.push_back(parse_block({"endfor"}));
    --scopes_;
    expect_name("endfor");
    return loop;
  }

  std::vector<Target> parse_targets(bool with_attribute) {
    const bool has_parentheses = take_if_symbol("(");
    std::vector<Target> targets;
    do {
      if (!targets.empty() && peek().kind != TokenKind::name) break;  // a comma at the end
      Target target{.name = expect_any_name()};
      check_target(target.name);
      if (with_attribute && take_if_symbol(".")) target.attribute = expect_any_name();
      targets.push_back(std::move(target));
    } while (take_if_symbol(","));
    if (has_parentheses) expect_symbol(")");
    return targets;
  }

  void check_target(const std::string& name) const {
    constexpr std::array<std::string_view, 8> kReserved{"true",  "false", "none", "True",
                                                        "False", "None",  "loop", "not"};
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
      fail(fmt::format("cannot assign to '{}'", name));
  }

  Statement parse_set(int64_t line) {
    Statement set{.kind = Statement::Kind::assign, .line = line};
    set.targets = parse_targets(/*with_attribute=*/true);
    if (take_if_symbol("=")) {
      set.expressions.push_back(parse_tuple());
      return set;
    }
    if (set.targets.size() > 1) fail("expected '='");
    set.kind = Statement::Kind::assign_block;
    ExpressionPtr filters;
    while (peek().is_symbol("|")) filters = parse_filter(std::move(filters));
    set.expressions.push_back(std::move(filters));
    set.bodies.push_back(parse_scope({"endset"}));
    expect_name("endset");
    return set;
  }

  Statement parse_macro(int64_t line) {
    // A macro of a loop or a macro would need variables that live longer than their scope.
    if (scopes_ > 0) fail_at(line, "a macro inside of a loop or another macro is not supported");
    Statement macro{.kind = Statement::Kind::macro, .line = line, .text = expect_any_name()};
    check_target(macro.text);
    expect_symbol("(");
    while (!peek().is_symbol(")")) {
      if (!macro.targets.empty()) expect_symbol(",");
      macro.targets.push_back({.name = expect_any_name()});
      check_target(macro.targets.back().name);
      if (take_if_symbol("=")) {
        macro.expressions.push_back(parse_expression());
      } else if (!macro.expressions.empty()) {
        fail("expected '=': a parameter with a default precedes this one");
      }
    }
    expect_symbol(")");
    macro.bodies.push_back(parse_scope({"endmacro"}));
    expect_name("endmacro");
    return macro;
  }

  // Expressions, from the loosest operator to the tightest

  bool at_end_of_tuple() const {
    const auto& token = peek();
    return token.kind == TokenKind::variable_end || token.kind == TokenKind::block_end ||
           token.is_symbol(")");
  }

  /// Parses one or more expressions, separated by commas.
  ExpressionPtr parse_tuple(bool with_condition = true) {
    const auto line = peek().line;
    Operands items;
    bool is_tuple = false;
    while (!at_end_of_tuple()) {
      items.push_back(with_condition ? parse_expression() : parse_either());
      if (!take_if_symbol(",")) break;
      is_tuple = true;
    }
    if (items.empty()) fail(fmt::format("expected an expression, found {}", shown(peek())));
    return is_tuple ? make(Kind::tuple, line, std::move(items)) : std::move(items.front());
  }

  ExpressionPtr parse_expression() {
    const Nested nested(*this);
    auto value = parse_either();
    while (peek().is_name("if")) {
      const auto line = take().line;
      auto condition = parse_either();
      auto other = take_if_name("else") ? parse_expression() : nullptr;
      value = make_of(Kind::condition, line, {}, std::move(condition), std::move(value),
                      std::move(other));
    }
    return value;
  }

  ExpressionPtr parse_either() {
    auto left = parse_both();
    while (peek().is_name("or")) {
      const auto line = take().line;
      left = make_of(Kind::either, line, {}, std::move(left), parse_both());
    }
    return left;
  }

  ExpressionPtr parse_both() {
    auto left = parse_negation();
    while (peek().is_name("and")) {
      const auto line = take().line;
      left = make_of(Kind::both, line, {}, std::move(left), parse_negation());
    }
    return left;
  }

  ExpressionPtr parse_negation() {
    if (!peek().is_name("not")) return parse_comparison();
    const Nested nested(*this);
    const auto line = take().line;
    return make_of(Kind::negation, line, {}, parse_negation());
  }

  ExpressionPtr parse_comparison() {
    const auto line = peek().line;
    Operands operands;
    operands.push_back(parse_sum());
    std::vector<std::string> operators;
    while (true) {
      constexpr std::array<std::string_view, 6> kSymbols{"==", "!=", "<", "<=", ">", ">="};
      const auto& token = peek();
      if (token.kind == TokenKind::symbol &&
          std::find(kSymbols.begin(), kSymbols.end(), token.text) != kSymbols.end()) {
        operators.push_back(take().text);
      } else if (take_if_name("in")) {
        operators.emplace_back("in");
      } else if (token.is_name("not") && peek(1).is_name("in")) {
        take();
        take();
        operators.emplace_back("not in");
      } else {
        break;
      }
      operands.push_back(parse_sum());
    }
    if (operators.empty()) return std::move(operands.front());
    return make(Kind::comparison, line, std::move(operands), {}, std::move(operators));
  }

  /// Parses operands between binary operators, from left to right.
  template <typename Parse>
  ExpressionPtr parse_arithmetic(std::initializer_list<std::string_view> operators,
                                 const Parse& parse_operand) {
    auto left = parse_operand();
    while (std::any_of(operators.begin(), operators.end(),
                       [&](auto symbol) { return peek().is_symbol(symbol); })) {
      const auto& token = take();
      left = make_of(Kind::arithmetic, token.line, token.text, std::move(left), parse_operand());
    }
    return left;
  }

  ExpressionPtr parse_sum() {
    return parse_arithmetic({"+", "-"}, [this] { return parse_concat(); });
  }

  ExpressionPtr parse_concat() {
    const auto line = peek().line;
    Operands operands;
    do {
      operands.push_back(parse_product());
    } while (take_if_symbol("~"));
    if (operands.size() == 1) return std::move(operands.front());
    return make(Kind::concat, line, std::move(operands));
  }

  ExpressionPtr parse_product() {
    return parse_arithmetic({"*", "/", "//", "%"}, [this] { return parse_power(); });
  }

  ExpressionPtr parse_power() {
    return parse_arithmetic({"**"}, [this] { return parse_unary(/*with_filters=*/true); });
  }

  ExpressionPtr parse_unary(bool with_filters) {
    const auto line = peek().line;
    ExpressionPtr value;
    if (take_if_symbol("-")) {
      const Nested nested(*this);
      value = make_of(Kind::minus, line, {}, parse_unary(/*with_filters=*/false));
    } else if (take_if_symbol("+")) {
      const Nested nested(*this);
      value = make_of(Kind::plus, line, {}, parse_unary(/*with_filters=*/false));
    } else {
      value = parse_primary();
    }
    value = parse_postfix(std::move(value));
    while (with_filters) {
      if (peek().is_symbol("|")) {
        value = parse_filter(std::move(value));
      } else if (peek().is_name("is")) {
        value = parse_test(std::move(value));
      } else if (peek().is_symbol("(")) {
        value = parse_call(std::move(value));
      } else {
        break;
      }
    }
    return value;
  }

  ExpressionPtr parse_primary() {
    const Nested nested(*this);
    const auto token = take();
    switch (token.kind) {
      case TokenKind::name:
        if (token.text == "true" || token.text == "True") return constant(token.line, true);
        if (token.text == "false" || token.text == "False") return constant(token.line, false);
        if (token.text == "none" || token.text == "None") return constant(token.line, Value());
        return make_of(Kind::name, token.line, token.text);
      case TokenKind::string: {
        auto text = token.text;
        while (peek().kind == TokenKind::string) text += take().text;
        return constant(token.line, std::move(text));
      }
      case TokenKind::integer: {
        int64_t value = 0;
        const auto result =
            std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
        if (result.ec != std::errc())
          fail_at(token.line, fmt::format("the integer {} is too large", token.text.substr(0, 60)));
        return constant(token.line, value);
      }
      case TokenKind::real:
        return constant(token.line, std::strtod(token.text.c_str(), nullptr));
      default:
        break;
    }
    if (token.is_symbol("(")) {
      if (take_if_symbol(")")) return make(Kind::tuple, token.line, {});
      auto value = parse_tuple();
      expect_symbol(")");
      return value;
    }
    if (token.is_symbol("[")) {
      Operands items;
      while (!peek().is_symbol("]")) {
        if (!items.empty()) expect_symbol(",");
        if (peek().is_symbol("]")) break;
        items.push_back(parse_expression());
      }
      expect_symbol("]");
      return make(Kind::list, token.line, std::move(items));
    }
    if (token.is_symbol("{")) {
      Operands items;
      while (!peek().is_symbol("}")) {
        if (!items.empty()) expect_symbol(",");
        if (peek().is_symbol("}")) break;
        items.push_back(parse_expression());
        expect_symbol(":");
        items.push_back(parse_expression());
      }
      expect_symbol("}");
      return make(Kind::dict, token.line, std::move(items));
    }
    fail_at(token.line, fmt::format("expected an expression, found {}", shown(token)));
  }

  ExpressionPtr parse_postfix(ExpressionPtr value) {
    while (true) {
      const auto line = peek().line;
      if (take_if_symbol(".")) {
        const auto& token = take();
        if (token.kind == TokenKind::name) {
          value = make_of(Kind::attribute, line, token.text, std::move(value));
        } else if (token.kind == TokenKind::integer) {
          value = make_of(Kind::item, line, {}, std::move(value),
                          constant(line, Value(int64_t{std::stoll(token.text.substr(0, 18))})));
        } else {
          fail_at(line, fmt::format("expected a name or number, found {}", shown(token)));
        }
      } else if (take_if_symbol("[")) {
        value = parse_subscript(std::move(value), line);
      } else if (peek().is_symbol("(")) {
        value = parse_call(std::move(value));
      } else {
        return value;
      }
    }
  }

  ExpressionPtr parse_subscript(ExpressionPtr value, int64_t line) {
    Operands operands;
    operands.push_back(std::move(value));
    const auto at_end = [this] { return peek().is_symbol(":") || peek().is_symbol("]"); };
    operands.push_back(at_end() ? nullptr : parse_expression());
    if (!peek().is_symbol(":")) {
      if (operands.back() == nullptr) fail("expected an expression, found ']'");
      expect_symbol("]");
      return make(Kind::item, line, std::move(operands));
    }
    take();
    operands.push_back(at_end() ? nullptr : parse_expression());
    operands.push_back(take_if_symbol(":") && !at_end() ? parse_expression() : nullptr);
    expect_symbol("]");
    return make(Kind::slice, line, std::move(operands));
  }

  /// Parses arguments in parentheses and adds them to `operands`. Returns the names of the last.
  std::vector<std::string> parse_arguments(Operands& operands) {
    std::vector<std::string> keywords;
    expect_symbol("(");
    for (bool is_first = true; !peek().is_symbol(")"); is_first = false) {
      if (!is_first) expect_symbol(",");
      if (peek().is_symbol(")")) break;
      if (peek().is_symbol("*") || peek().is_symbol("**"))
        fail("arguments with '*' are not supported");
      if (peek().kind == TokenKind::name && peek(1).is_symbol("=")) {
        keywords.push_back(take().text);
        take();
      } else if (!keywords.empty()) {
        fail("expected NAME = VALUE after an argument with a name");
      }
      operands.push_back(parse_expression());
    }
    expect_symbol(")");
    return keywords;
  }

  ExpressionPtr parse_call(ExpressionPtr function) {
    const auto line = peek().line;
    Operands operands;
    operands.push_back(std::move(function));
    auto keywords = parse_arguments(operands);
    return make(Kind::call, line, std::move(operands), {}, std::move(keywords));
  }

  ExpressionPtr parse_filter(ExpressionPtr value) {
    expect_symbol("|");
    const auto line = peek().line;
    const auto name = expect_any_name();
    if (!is_filter(name))
      fail_at(line, fmt::format("the filter '{}' is unknown or not supported", name));
    Operands operands;
    operands.push_back(std::move(value));
    std::vector<std::string> keywords;
    if (peek().is_symbol("(")) keywords = parse_arguments(operands);
    return make(Kind::filter, line, std::move(operands), name, std::move(keywords));
  }

  ExpressionPtr parse_test(ExpressionPtr value) {
    const auto line = take().line;
    const bool is_negated = take_if_name("not");
    const auto name = expect_any_name();
    if (!is_test(name))
      fail_at(line, fmt::format("the test '{}' is unknown or not supported", name));
    Operands operands;
    operands.push_back(std::move(value));
    std::vector<std::string> keywords;
    const auto& token = peek();
    if (token.is_symbol("(")) {
      keywords = parse_arguments(operands);
    } else if (begins_argument(token)) {
      if (token.is_name("is")) fail("two tests with 'is' cannot be chained");
      operands.push_back(parse_postfix(parse_primary()));
    }
    auto test = make(Kind::test, line, std::move(operands), name, std::move(keywords));
    return is_negated ? make_of(Kind::negation, line, {}, std::move(test)) : std::move(test);
  }

  /// True if a token begins the argument of a test without parentheses.
  static bool begins_argument(const Token& token) {
    switch (token.kind) {
      case TokenKind::string:
      case TokenKind::integer:
      case TokenKind::real:
        return true;
      case TokenKind::name:
        return token.text != "else" && token.text != "or" && token.text != "and";
      default:
        return token.is_symbol("[") || token.is_symbol("{");
    }
  }

  std::vector<Token> tokens_;
  const std::string& name_;
  std::size_t next_ = 0;
  int64_t nesting_ = 0;
  int64_t loops_ = 0;   // around the current statement
  int64_t scopes_ = 0;  // bodies with variables of their own around the current statement
};

}  // namespace

Body parse_template(std::string_view source, const std::string& name) {
  if (source.size() > kMaxTemplate) {
    throw InputError(fmt::format("{}: the template has {} bytes, expected at most {}", name,
                                 source.size(), kMaxTemplate));
  }
  check_utf8(source, name);
  return Parser(split_template(source, name), name).parse();
}

}  // namespace attend::jinja
