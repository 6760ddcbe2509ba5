#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend::jinja {

enum class TokenKind {
  data,            ///< text outside of tags
  variable_begin,  ///< {{
  variable_end,    ///< }}
  block_begin,     ///< {%
  block_end,       ///< %}
  name,
  string,  ///< without quotes and escapes
  integer,
  real,
  symbol,  ///< operator, bracket or separator
  end,     ///< of the template
};

struct Token {
  TokenKind kind;
  std::string text;
  int64_t line;  ///< from 1

  bool is(TokenKind other, std::string_view value) const { return kind == other && text == value; }
  bool is_name(std::string_view value) const { return is(TokenKind::name, value); }
  bool is_symbol(std::string_view value) const { return is(TokenKind::symbol, value); }
};

/// Splits a template into tokens, as Jinja does with trim_blocks and lstrip_blocks. `source` must
/// be valid UTF-8. Throws InputError that names the line. `name`: of the template, for messages.
std::vector<Token> split_template(std::string_view source, const std::string& name);

}  // namespace attend::jinja
