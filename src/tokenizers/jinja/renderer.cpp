#include "tokenizers/jinja/renderer.h"

#include "attend/input_error.h"
#include "tokenizers/characters.h"
#include "tokenizers/jinja/builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>

namespace attend::jinja {
namespace {

using Kind = Expression::Kind;

/// Maximum number of expressions and statements that are evaluated inside of each other.
constexpr int64_t kMaxCalls = 500;

/// Variables of the template, a loop, a macro or a block.
struct Scope {
  std::map<std::string, Value> variables;
  const Scope* parent = nullptr;
};

enum class Flow { next, break_loop, continue_loop };

void check_overflow(bool overflows) {
  if (overflows) throw InputError("an integer has more than 63 bits");
}

/// Returns `a // b` of Python, rounded down.
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw InputError("division by zero");
  check_overflow(a == INT64_MIN && b == -1);
  const auto quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

Value power(const Value& a, const Value& b) {
  const auto base = a.integer();
  const auto exponent = b.integer();
  if (!base || !exponent || *exponent < 0) return std::pow(a.number(), b.number());
  int64_t result = 1;
  const bool is_trivial = *base >= -1 && *base <= 1;
  const auto count = is_trivial ? *exponent % 2 + 2 * (*exponent > 1) : *exponent;
  for (int64_t i = 0; i < count; ++i) {
    check_overflow(__builtin_mul_overflow(result, *base, &result));
  }
  return result;
}

/// Returns `divmod(a, b)` of Python for floats, with its rounding.
std::pair<double, double> divide_floats(double a, double b) {
  if (b == 0.0) throw InputError("division by zero");
  auto rest = std::fmod(a, b);
  auto quotient = (a - rest) / b;
  if (rest == 0.0) {
    rest = std::copysign(0.0, b);
  } else if ((b < 0.0) != (rest < 0.0)) {
    rest += b;
    quotient -= 1.0;
  }
  if (quotient == 0.0) return {std::copysign(0.0, a / b), rest};
  const auto down = std::floor(quotient);
  return {quotient - down > 0.5 ? down + 1.0 : down, rest};
}

/// Returns the result of an operator for two numbers.
Value arithmetic(std::string_view symbol, const Value& a, const Value& b) {
  const auto x = a.integer();
  const auto y = b.integer();
  if (symbol == "**") return power(a, b);
  if (symbol == "/") {
    if (b.number() == 0.0) throw InputError("division by zero");
    return a.number() / b.number();
  }
  if (x && y) {
    if (symbol == "//") return floor_divide(*x, *y);
    if (symbol == "%") return *y == -1 ? int64_t{0} : *x - floor_divide(*x, *y) * *y;
    int64_t result = 0;
    check_overflow(symbol == "+"   ? __builtin_add_overflow(*x, *y, &result)
                   : symbol == "-" ? __builtin_sub_overflow(*x, *y, &result)
                                   : __builtin_mul_overflow(*x, *y, &result));
    return result;
  }
  if (symbol == "+") return a.number() + b.number();
  if (symbol == "-") return a.number() - b.number();
  if (symbol == "*") return a.number() * b.number();
  const auto [quotient, rest] = divide_floats(a.number(), b.number());
  return symbol == "//" ? quotient : rest;
}

class Renderer {
 public:
  Renderer(const std::map<std::string, Value>& variables, const std::tm& now)
      : now_(now), calls_{budget_, [this](const Value& value, const Value& name) {
                            return item_of(value, name);
                          }} {
    root_.variables = variables;
    for (const char* name : {"range", "dict", "namespace", "raise_exception", "strftime_now"})
      root_.variables.emplace(name, Value(Function{name}));
  }

  Rendered render(const Body& body) && {
    execute(body, root_);
    return {std::move(out_), std::move(generated_)};
  }

  int64_t line() const { return line_; }

 private:
  class Call {
   public:
    explicit Call(Renderer& renderer) : renderer_(renderer) {
      if (++renderer_.depth_ > kMaxCalls)
        throw InputError(fmt::format("found more than {} parts inside of each other", kMaxCalls));
    }
    ~Call() { --renderer_.depth_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Renderer& renderer_;
  };

  // Statements

  void write(std::string_view text) {
    if (out_.size() + text.size() > Budget::kMaxText)
      budget_.allocate(out_.size() + text.size());  // throws
    out_ += text;
  }

  Flow execute(const Body& body, Scope& scope) {
    const Call call(*this);
    for (const auto& statement : body) {
      budget_.step();
      line_ = statement->line;
      const auto flow = execute(*statement, scope);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow execute(const Statement& statement, Scope& scope) {
    switch (statement.kind) {
      case Statement::Kind::data:
        write(statement.text);
        return Flow::next;
      case Statement::Kind::output:
        write(to_text(evaluate(*statement.expressions[0], scope), budget_));
        return Flow::next;
      case Statement::Kind::branch:
        return execute_branch(statement, scope);
      case Statement::Kind::loop:
        return execute_loop(statement, scope);
      case Statement::Kind::assign:
        assign(statement.targets, evaluate(*statement.expressions[0], scope), scope);
        return Flow::next;
      case Statement::Kind::assign_block:
        assign_block(statement, scope);
        return Flow::next;
      case Statement::Kind::macro:
        scope.variables[statement.text] = Value(&statement);
        return Flow::next;
      case Statement::Kind::generation: {
        const auto begin = out_.size();
        Scope inner{{}, &scope};
        execute(statement.bodies[0], inner);
        generated_.emplace_back(begin, out_.size());
        return Flow::next;
      }
      case Statement::Kind::break_loop:
        return Flow::break_loop;
      case Statement::Kind::continue_loop:
        return Flow::continue_loop;
    }
    return Flow::next;
  }

  Flow execute_branch(const Statement& statement, Scope& scope) {
    for (std::size_t i = 0; i < statement.bodies.size(); ++i) {
      const bool is_else = i == statement.expressions.size();
      if (is_else || is_true(evaluate(*statement.expressions[i], scope)))
        return execute(statement.bodies[i], scope);
    }
    return Flow::next;
  }

  Flow execute_loop(const Statement& statement, Scope& scope) {
    auto items = iterate(evaluate(*statement.expressions[0], scope), budget_);
    if (const auto* filter = statement.expressions[1].get()) {
      std::vector<Value> chosen;
      for (auto& item : items) {
        Scope inner{{}, &scope};
        assign(statement.targets, item, inner);
        if (is_true(evaluate(*filter, inner))) chosen.push_back(std::move(item));
      }
      items = std::move(chosen);
    }
    auto sequence = std::make_shared<Sequence>();
    for (const auto& item : items) sequence->depth = std::max(sequence->depth, item.depth() + 1);
    sequence->items = std::move(items);
    const auto* outer = find(scope, "loop");
    const auto* outer_loop = outer == nullptr ? nullptr : outer->loop();
    auto loop = std::make_shared<Loop>(
        Loop{sequence, 0, outer_loop == nullptr ? 1 : outer_loop->depth + 1});
    bool has_finished = false;  // at least one iteration
    for (const auto& item : sequence->items) {
      Scope inner{{}, &scope};
      inner.variables["loop"] = Value(std::make_shared<const Loop>(*loop));
      assign(statement.targets, item, inner);
      const auto flow = execute(statement.bodies[0], inner);
      if (flow == Flow::break_loop) break;
      has_finished |= flow == Flow::next;
      ++loop->index;
    }
    // In Jinja, `else` also follows a loop of which each iteration ends with `break` or `continue`.
    if (!has_finished && statement.bodies.size() > 1) {
      Scope inner{{}, &scope};
      return execute(statement.bodies[1], inner);
    }
    return Flow::next;
  }

  void assign(const std::vector<Target>& targets, const Value& value, Scope& scope) {
    if (targets.size() == 1) return assign(targets.front(), value, scope);
    const auto values = iterate(value, budget_);
    if (values.size() != targets.size()) {
      throw InputError(fmt::format("expected {} values, found {}", targets.size(), values.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) assign(targets[i], values[i], scope);
  }

  void assign(const Target& target, const Value& value, Scope& scope) {
    budget_.allocate(target.name.size() + target.attribute.size());
    if (target.attribute.empty()) {
      scope.variables[target.name] = value;
      return;
    }
    const auto* variable = find(scope, target.name);
    auto* const* found = variable == nullptr ? nullptr : variable->get_if<Namespace*>();
    if (found == nullptr) {
      throw InputError(
          fmt::format("'{}' is not a namespace, so that its attribute '{}' cannot be "
                      "assigned to",
                      target.name, target.attribute));
    }
    check_attribute(target.attribute);
    (*found)->attributes[target.attribute] = value;
  }

  static void check_attribute(const std::string& name) {
    if (name.starts_with('_'))
      throw InputError(fmt::format("the attribute '{}' begins with an underscore", name));
  }

  void assign_block(const Statement& statement, Scope& scope) {
    Scope inner{{}, &scope};
    Value value(captured(statement.bodies[0], inner));
    if (statement.expressions[0] != nullptr)
      value = filtered(*statement.expressions[0], value, scope);
    assign(statement.targets, value, scope);
  }

  /// Returns the output of a body.
  std::string captured(const Body& body, Scope& scope) {
    auto before = std::exchange(out_, {});
    auto generated = std::exchange(generated_, {});
    execute(body, scope);
    generated_ = std::move(generated);
    auto text = std::exchange(out_, std::move(before));
    budget_.allocate(text.size());
    return text;
  }

  /// Applies the filters of `{% set x | first | second %}`.
  Value filtered(const Expression& filter, const Value& value, const Scope& scope) {
    const auto input =
        filter.operands[0] == nullptr ? value : filtered(*filter.operands[0], value, scope);
    return apply_filter(filter.name, input, arguments_of(filter, scope), calls_);
  }

  // Expressions

  static const Value* find(const Scope& scope, const std::string& name) {
    for (const auto* at = &scope; at != nullptr; at = at->parent) {
      const auto found = at->variables.find(name);
      if (found != at->variables.end()) return &found->second;
    }
    return nullptr;
  }

  Value evaluate(const Expression& expression, const Scope& scope) {
    const Call call(*this);
    budget_.compare(expression.name.size());
    line_ = expression.line;
    const auto operand = [&](std::size_t i) { return evaluate(*expression.operands[i], scope); };
    switch (expression.kind) {
      case Kind::constant:
        return expression.value;
      case Kind::name: {
        const auto* found = find(scope, expression.name);
        return found == nullptr ? Undefined(fmt::format("'{}'", short_name(expression.name)))
                                : *found;
      }
      case Kind::list:
      case Kind::tuple:
        return list_of(expression, scope);
      case Kind::dict:
        return dict_of(expression, scope);
      case Kind::attribute:
        return attribute_of(operand(0), expression.name);
      case Kind::item: {
        const auto value = operand(0);
        return item_of(value, operand(1));
      }
      case Kind::slice:
        return slice_of(expression, scope);
      case Kind::call:
        return call_of(expression, scope);
      case Kind::filter: {
        const auto input = operand(0);
        return apply_filter(expression.name, input, arguments_of(expression, scope), calls_);
      }
      case Kind::test: {
        const auto input = operand(0);
        return apply_test(expression.name, input, arguments_of(expression, scope), calls_);
      }
      case Kind::negation:
        return !is_true(operand(0));
      case Kind::minus:
        return negative(operand(0));
      case Kind::plus:
        return negative(negative(operand(0)));
      case Kind::both: {
        auto left = operand(0);
        return is_true(left) ? operand(1) : left;
      }
      case Kind::either: {
        auto left = operand(0);
        return is_true(left) ? left : operand(1);
      }
      case Kind::condition:
        if (is_true(operand(0))) return operand(1);
        if (expression.operands[2] != nullptr) return operand(2);
        return Undefined("the 'else' of a condition");
      case Kind::comparison:
        return comparison_of(expression, scope);
      case Kind::arithmetic: {
        const auto left = operand(0);
        return arithmetic_of(expression.name, left, operand(1));
      }
      case Kind::concat:
        return concat_of(expression, scope);
    }
    return {};
  }

  static Value negative(const Value& value) {
    return value.is<double>() ? Value(-value.number()) : arithmetic("-", int64_t{0}, value);
  }

  Value list_of(const Expression& expression, const Scope& scope) {
    std::vector<Value> items;
    for (const auto& item : expression.operands) items.push_back(evaluate(*item, scope));
    return Value::list(std::move(items), expression.kind == Kind::tuple);
  }

  Value dict_of(const Expression& expression, const Scope& scope) {
    std::vector<std::pair<Value, Value>> items;
    const auto& operands = expression.operands;
    for (std::size_t i = 0; i < operands.size(); i += 2) {
      const auto key = evaluate(*operands[i], scope);
      insert(items, key, evaluate(*operands[i + 1], scope));
    }
    return Value::dict(std::move(items));
  }

  /// Sets the value of a key.
  void insert(std::vector<std::pair<Value, Value>>& items, const Value& key, Value value) {
    check_hashable(key);
    budget_.step(1 + items.size() / 8);
    for (auto& [other, old] : items) {
      if (equal(other, key, budget_)) {
        old = std::move(value);
        return;
      }
    }
    items.emplace_back(key, std::move(value));
  }

  Value concat_of(const Expression& expression, const Scope& scope) {
    std::string text;
    for (const auto& operand : expression.operands) {
      text += to_text(evaluate(*operand, scope), budget_);
      if (text.size() > Budget::kMaxText) break;
    }
    budget_.allocate(text.size());
    return text;
  }

  Value comparison_of(const Expression& expression, const Scope& scope) {
    auto left = evaluate(*expression.operands[0], scope);
    for (std::size_t i = 0; i < expression.names.size(); ++i) {
      auto right = evaluate(*expression.operands[i + 1], scope);
      if (!compare(expression.names[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool compare(std::string_view symbol, const Value& a, const Value& b) {
    if (symbol == "==") return equal(a, b, budget_);
    if (symbol == "!=") return !equal(a, b, budget_);
    if (symbol == "in") return contains(b, a, budget_);
    if (symbol == "not in") return !contains(b, a, budget_);
    if (symbol == "<") return less(a, b, budget_);
    if (symbol == ">") return less(b, a, budget_);
    return (symbol == "<=" ? less(a, b, budget_) : less(b, a, budget_)) || equal(a, b, budget_);
  }

  Value arithmetic_of(std::string_view symbol, const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) return arithmetic(symbol, a, b);
    if (symbol == "+" && a.text() != nullptr && b.text() != nullptr) {
      budget_.allocate(a.text()->size() + b.text()->size());
      return *a.text() + *b.text();
    }
    if (symbol == "+" && a.sequence() != nullptr && b.sequence() != nullptr &&
        a.sequence()->is_tuple == b.sequence()->is_tuple) {
      budget_.step(a.sequence()->items.size() + b.sequence()->items.size());
      auto items = a.sequence()->items;
      items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
      return Value::list(std::move(items), a.sequence()->is_tuple);
    }
    if (symbol == "*" && (a.integer() || b.integer()))
      return repeated(a.integer() ? b : a, a.integer() ? *a.integer() : *b.integer());
    throw InputError(fmt::format("cannot compute {} {} {}", type_name(a), symbol, type_name(b)));
  }

  Value repeated(const Value& value, int64_t count) {
    const auto times = static_cast<std::size_t>(std::clamp<int64_t>(count, 0, INT32_MAX));
    if (const auto* text = value.text()) {
      budget_.allocate(text->size() * times);
      std::string result;
      result.reserve(text->size() * times);
      for (std::size_t i = 0; i < times && !text->empty(); ++i) result += *text;
      return result;
    }
    if (const auto* sequence = value.sequence()) {
      budget_.step(sequence->items.size() * times);
      std::vector<Value> items;
      for (std::size_t i = 0; i < times && !sequence->items.empty(); ++i)
        items.insert(items.end(), sequence->items.begin(), sequence->items.end());
      return Value::list(std::move(items), sequence->is_tuple);
    }
    throw InputError(fmt::format("cannot repeat a {}", type_name(value)));
  }

  static Value loop_attribute(const Loop& loop, const std::string& name) {
    const auto& items = loop.items->items;
    const auto count = std::ssize(items);
    const auto at = [&](int64_t index) -> Value {
      if (index < 0 || index >= count) return Undefined(fmt::format("'loop.{}'", short_name(name)));
      return items[static_cast<std::size_t>(index)];
    };
    if (name == "index") return loop.index + 1;
    if (name == "index0") return loop.index;
    if (name == "revindex") return count - loop.index;
    if (name == "revindex0") return count - loop.index - 1;
    if (name == "first") return loop.index == 0;
    if (name == "last") return loop.index + 1 == count;
    if (name == "length") return count;
    if (name == "depth") return loop.depth;
    if (name == "depth0") return loop.depth - 1;
    if (name == "previtem") return at(loop.index - 1);
    if (name == "nextitem") return at(loop.index + 1);
    if (name == "changed") throw InputError("'loop.changed' is not supported");
    return Undefined(fmt::format("'loop.{}'", short_name(name)));
  }

  static void check_defined(const Value& value, std::string_view name) {
    if (const auto* undefined = value.get_if<Undefined>()) {
      throw InputError(fmt::format("{} is undefined, so that it has no '{}'", *undefined->what,
                                   short_name(name)));
    }
  }

  /// Returns the attribute of an object with attributes; std::nullopt if it has none.
  std::optional<Value> own_attribute(const Value& value, const std::string& name) {
    if (const auto* loop = value.loop(); loop != nullptr && name != "cycle")
      return loop_attribute(*loop, name);
    if (auto* const* space = value.get_if<Namespace*>()) {
      const auto found = (*space)->attributes.find(name);
      if (found != (*space)->attributes.end()) return found->second;
    }
    if (has_method(value, name)) return Value(std::make_shared<const Method>(Method{value, name}));
    return std::nullopt;
  }

  Value attribute_of(const Value& value, const std::string& name) {
    check_defined(value, name);
    if (auto own = own_attribute(value, name)) return *std::move(own);
    if (const auto* dict = value.dict()) {
      if (const auto* found = jinja::find(*dict, name, budget_)) return *found;
    }
    return Undefined(fmt::format("the attribute '{}' of a {}", short_name(name), type_name(value)));
  }

  Value item_of(const Value& value, const Value& key) {
    const auto name = key.text() != nullptr ? std::string_view(*key.text()) : "item";
    check_defined(value, name);
    budget_.compare(name.size());
    if (const auto* dict = value.dict()) {
      const auto* found = is_hashable(key) ? jinja::find(*dict, key, budget_) : nullptr;
      if (found != nullptr) return *found;
    } else if (const auto index = key.integer(); index && has_index(value)) {
      const auto count = length(value, budget_);
      const auto at = *index < 0 ? *index + count : *index;
      if (at >= 0 && at < count) {
        if (value.sequence() != nullptr)
          return value.sequence()->items[static_cast<std::size_t>(at)];
        budget_.read(value.text()->size());
        return character_at(*value.text(), at);
      }
      return Undefined(fmt::format("the item {} of a {}", *index, type_name(value)));
    }
    if (key.text() != nullptr) {
      if (auto own = own_attribute(value, *key.text())) return *std::move(own);
    }
    return Undefined(fmt::format("the item '{}' of a {}", short_name(name), type_name(value)));
  }

  static std::string character_at(const std::string& text, int64_t index) {
    std::size_t begin = 0;
    for (int64_t i = 0; i < index; ++i) tokenizers::next_character(text, begin);
    auto end = begin;
    tokenizers::next_character(text, end);
    return text.substr(begin, end - begin);
  }

  /// True for a list, a tuple and a text.
  static bool has_index(const Value& value) {
    return value.sequence() != nullptr || value.text() != nullptr;
  }

  Value slice_of(const Expression& expression, const Scope& scope) {
    const auto value = evaluate(*expression.operands[0], scope);
    check_defined(value, "items");
    if (!has_index(value))
      throw InputError(fmt::format("cannot take a slice of a {}", type_name(value)));
    std::array<std::optional<int64_t>, 3> bounds;
    for (std::size_t i = 0; i < 3; ++i) {
      if (expression.operands[i + 1] == nullptr) continue;
      const auto bound = evaluate(*expression.operands[i + 1], scope);
      if (bound.is<None>()) continue;
      bounds[i] = bound.integer();
      if (!bounds[i]) {
        throw InputError(
            fmt::format("expected an integer in a slice, found a {}", type_name(bound)));
      }
    }
    const auto step = bounds[2].value_or(1);
    if (step == 0) throw InputError("the step of a slice is 0");
    const auto count = length(value, budget_);
    // As in Python: bounds below 0 count from the end, and all are clamped.
    const auto low = step > 0 ? int64_t{0} : int64_t{-1};
    const auto high = step > 0 ? count : count - 1;
    const auto clamped = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
      if (!bound) return otherwise;
      return std::clamp(*bound < 0 ? *bound + count : *bound, low, high);
    };
    const auto begin = clamped(bounds[0], step > 0 ? low : high);
    const auto end = clamped(bounds[1], step > 0 ? high : low);
    std::vector<std::size_t> chosen;
    for (auto at = begin; step > 0 ? at < end : at > end;) {
      budget_.step();
      chosen.push_back(static_cast<std::size_t>(at));
      if (__builtin_add_overflow(at, step, &at)) break;
    }
    if (const auto* text = value.text()) {
      budget_.read(text->size());
      const auto characters = characters_of(*text);
      std::string result;
      for (const auto at : chosen) result += characters[at];
      budget_.allocate(result.size());
      return result;
    }
    std::vector<Value> items;
    for (const auto at : chosen) items.push_back(value.sequence()->items[at]);
    return Value::list(std::move(items), value.sequence()->is_tuple);
  }

  // Calls

  /// Returns the values of all operands but the first.
  Arguments arguments_of(const Expression& expression, const Scope& scope) {
    Arguments arguments;
    const auto count = expression.operands.size() - expression.names.size();
    for (std::size_t i = 1; i < expression.operands.size(); ++i) {
      auto value = evaluate(*expression.operands[i], scope);
      if (i < count) {
        arguments.values.push_back(std::move(value));
      } else {
        budget_.allocate(expression.names[i - count].size());
        arguments.keywords.emplace_back(expression.names[i - count], std::move(value));
      }
    }
    line_ = expression.line;
    return arguments;
  }

  Value call_of(const Expression& expression, const Scope& scope) {
    const auto function = evaluate(*expression.operands[0], scope);
    const auto arguments = arguments_of(expression, scope);
    if (const auto* method = function.method()) {
      if (method->self.loop() != nullptr) return cycle(*method->self.loop(), arguments);
      return call_method(method->self, method->name, arguments, calls_);
    }
    if (const auto* macro = function.get_if<const Statement*>())
      return call_macro(**macro, arguments);
    if (const auto* known = function.get_if<Function>())
      return call_function(known->name, arguments);
    throw InputError(fmt::format("cannot call a {}", type_name(function)));
  }

  static Value cycle(const Loop& loop, const Arguments& arguments) {
    if (arguments.values.empty()) throw InputError("'loop.cycle' requires arguments, found none");
    return arguments.values[static_cast<std::size_t>(loop.index) % arguments.values.size()];
  }

  Value call_macro(const Statement& macro, const Arguments& arguments) {
    std::vector<std::string_view> names;
    for (const auto& parameter : macro.targets) names.emplace_back(parameter.name);
    budget_.step(names.size() * (1 + arguments.keywords.size()));
    arguments.check(0, names);
    Scope scope{{}, &root_};
    const auto first_default = macro.targets.size() - macro.expressions.size();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& name = macro.targets[i].name;
      budget_.allocate(name.size());
      if (const auto* given = arguments.find(i, name); given != nullptr)
        scope.variables[name] = *given;
      else if (i < first_default)
        scope.variables[name] = Undefined(fmt::format("the parameter '{}'", short_name(name)));
      else
        scope.variables[name] = evaluate(*macro.expressions[i - first_default], scope);
    }
    return captured(macro.bodies[0], scope);
  }

  Value call_function(std::string_view name, const Arguments& arguments) {
    if (name == "raise_exception") {
      arguments.check(1, {"message"});
      throw InputError(fmt::format("the template refuses the messages: {}",
                                   to_text(arguments.get(0, "message", {}), budget_)));
    }
    if (name == "strftime_now") {
      arguments.check(1, {"format"});
      return formatted_time(arguments.get(0, "format", {}));
    }
    if (name == "range") return range(arguments);
    std::vector<std::pair<Value, Value>> items;  // of `dict` and `namespace`
    if (!arguments.values.empty()) {
      const auto* dict = arguments.values.front().dict();
      if (dict == nullptr || arguments.values.size() > 1)
        throw InputError(
            fmt::format("'{}' requires at most one dict as positional argument", name));
      budget_.step(dict->items.size());
      items = dict->items;
    }
    for (const auto& [key, value] : arguments.keywords) {
      budget_.allocate(key.size());
      insert(items, key, value);
    }
    if (name == "dict") return Value::dict(std::move(items));
    namespaces_.push_back(std::make_unique<Namespace>());
    for (auto& [key, value] : items) {
      const auto attribute = to_text(key, budget_);
      check_attribute(attribute);
      namespaces_.back()->attributes[attribute] = std::move(value);
    }
    return namespaces_.back().get();
  }

  Value range(const Arguments& arguments) {
    std::vector<int64_t> bounds;
    for (const auto& value : arguments.values) {
      if (!value.integer())
        throw InputError(fmt::format("'range' requires integers, found a {}", type_name(value)));
      bounds.push_back(*value.integer());
    }
    if (bounds.empty() || bounds.size() > 3 || !arguments.keywords.empty()) {
      throw InputError(fmt::format("'range' requires 1 to 3 integers, found {} arguments",
                                   bounds.size() + arguments.keywords.size()));
    }
    if (bounds.size() == 1) bounds.insert(bounds.begin(), 0);
    const auto step = bounds.size() == 3 ? bounds[2] : int64_t{1};
    if (step == 0) throw InputError("the step of 'range' is 0");
    std::vector<Value> items;
    for (auto at = bounds[0]; step > 0 ? at < bounds[1] : at > bounds[1];) {
      if (items.size() == 100'000) throw InputError("'range' has more than 100,000 items");
      budget_.step();
      items.emplace_back(at);
      if (__builtin_add_overflow(at, step, &at)) break;
    }
    return Value::list(std::move(items));
  }

  Value formatted_time(const Value& format) {
    const auto* text = format.text();
    if (text == nullptr || text->size() > 1000 || text->find('\0') != std::string::npos)
      throw InputError("'strftime_now' requires a format of at most 1000 bytes");
    budget_.step(100 + text->size());
    std::string buffer(100'000, '\0');
    const auto size = std::strftime(buffer.data(), buffer.size(), (*text + "!").c_str(), &now_);
    if (size == 0) throw InputError("'strftime_now' makes a text of more than 100,000 bytes");
    return buffer.substr(0, size - 1);  // without "!", which tells an empty text apart
  }

  const std::tm& now_;
  Budget budget_;
  Calls calls_;
  Scope root_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  std::string out_;
  std::vector<std::pair<std::size_t, std::size_t>> generated_;
  int64_t line_ = 1;
  int64_t depth_ = 0;
};

}  // namespace

Rendered render(const Body& body, const std::string& name,
                const std::map<std::string, Value>& variables, const std::tm& now) {
  Renderer renderer(variables, now);
  try {
    return std::move(renderer).render(body);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}:{}: {}", name, renderer.line(), error.what()));
  }
}

}  // namespace attend::jinja
