#pragma once

#include "tokenizers/jinja/value.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attend::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind {
    constant,    ///< value
    name,        ///< name
    list,        ///< operands
    tuple,       ///< operands
    dict,        ///< operands: key, value, key, value ...
    attribute,   ///< operand.name
    item,        ///< operand[operand]
    slice,       ///< operand[operand:operand:operand]; all but the first may be null
    call,        ///< operand(arguments); the first operand is the function
    filter,      ///< operand | name(arguments); the first operand is null in `{% set x | name %}`
    test,        ///< operand is name(arguments)
    negation,    ///< not operand
    minus,       ///< -operand
    plus,        ///< +operand
    both,        ///< operand and operand
    either,      ///< operand or operand
    condition,   ///< operand 1 if operand 0 else operand 2, which may be null
    comparison,  ///< operand names[0] operand names[1] operand ...
    arithmetic,  ///< operand name operand
    concat,      ///< operand ~ operand ~ ...
  };

  Kind kind;
  int64_t line;
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<std::string> names = {};  ///< operators, or keywords of the last operands of a call
  int64_t depth = 1;
};

/// Target of an assignment: a variable, or an attribute of a namespace.
struct Target {
  std::string name;
  std::string attribute = {};  ///< empty for a variable
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
  enum class Kind {
    data,          ///< text
    output,        ///< {{ expression 0 }}
    branch,        ///< {% if %}: a body for each expression, and one for `else`
    loop,          ///< {% for targets in expression 0 if expression 1 %}, body 0, body 1 for `else`
    assign,        ///< {% set targets = expression 0 %}
    assign_block,  ///< {% set target | filters %}; expression 0: filters, or null
    macro,         ///< {% macro text(targets) %}; expressions: defaults of the last targets
    generation,    ///< {% generation %}
    break_loop,    ///< {% break %}
    continue_loop,  ///< {% continue %}
  };

  Kind kind;
  int64_t line;
  std::string text = {};
  std::vector<Target> targets = {};
  std::vector<ExpressionPtr> expressions = {};
  std::vector<Body> bodies = {};
};

/// Parses a template, which must be valid UTF-8. Throws InputError that names the line, for errors
/// and for parts of Jinja that are not supported. `name`: of the template, for messages.
Body parse_template(std::string_view source, const std::string& name);

}  // namespace attend::jinja
