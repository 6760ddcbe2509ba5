#include "tokenizers/jinja/lexer.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/jinja/python_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace attend::jinja {
namespace {

/// Returns a text with the line break LF for CR LF and CR.
std::string with_line_feeds(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i] == '\r' ? '\n' : text[i];
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  return result;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c);
}

/// Returns the part of a text from the first character that is not whitespace.
std::string_view without_leading_space(std::string_view text) {
  return stripped_of(text, Sides::left, nullptr);
}

/// Returns the position of the first `{{`, `{%` or `{#`.
std::size_t find_tag(std::string_view text) {
  for (auto at = text.find('{'); at != text.npos && at + 1 < text.size();
       at = text.find('{', at + 1)) {
    if (text[at + 1] == '{' || text[at + 1] == '%' || text[at + 1] == '#') return at;
  }
  return text.npos;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name)
      : source_(with_line_feeds(source)), name_(name), rest_(source_) {
    if (rest_.ends_with('\n')) rest_.remove_suffix(1);
  }

  std::vector<Token> split() && {
    while (!rest_.empty()) read_data();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}:{}: {}", name_, line_, message));
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  /// Removes the first `count` bytes of the rest.
  std::string_view take(std::size_t count) {
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    line_ += std::count(taken.begin(), taken.end(), '\n');
    if (count > 0) at_line_start_ = taken.back() == '\n';
    return taken;
  }

  /// Removes `text` if the rest begins with it.
  bool take_if(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    take(text.size());
    return true;
  }

  void take_space() { take(rest_.size() - without_leading_space(rest_).size()); }

  /// Returns the size of `{%`, an optional sign, and the name of a tag at the start of `text`; 0 if
  /// there is another tag. `sign`: receives the sign, or NUL.
  static std::size_t tag_size(std::string_view text, std::string_view tag, char& sign) {
    if (!text.starts_with("{%")) return 0;
    auto rest = text.substr(2);
    sign = !rest.empty() && (rest.front() == '-' || rest.front() == '+') ? rest.front() : '\0';
    if (sign != '\0') rest.remove_prefix(1);
    rest = without_leading_space(rest);
    if (!rest.starts_with(tag)) return 0;
    rest = without_leading_space(rest.substr(tag.size()));
    return static_cast<std::size_t>(rest.data() - text.data());
  }

  /// Adds text before a tag. `sign`: that of the tag.
  void add_data(std::string_view text, char sign, bool is_variable, bool at_line_start,
                int64_t line) {
    if (sign == '-') {
      text = stripped_of(text, Sides::right, nullptr);
    } else if (sign != '+' && !is_variable) {
      const auto begin = text.rfind('\n') + 1;  // 0 if there is none
      const auto last = text.substr(begin);
      if ((begin > 0 || at_line_start) && !last.empty() && without_leading_space(last).empty())
        text = text.substr(0, begin);
    }
    if (!text.empty()) tokens_.push_back({TokenKind::data, std::string(text), line});
  }

  void read_data() {
    const auto line = line_;
    const bool at_line_start = at_line_start_;
    const auto begin = find_tag(rest_);
    if (begin == rest_.npos) {
      add(TokenKind::data, std::string(rest_));
      take(rest_.size());
      return;
    }
    const auto text = rest_.substr(0, begin);
    char sign = '\0';
    if (const auto size = tag_size(rest_.substr(begin), "raw", sign); size > 0) {
      const auto after = rest_.substr(begin + size);
      if (after.starts_with("%}") || after.starts_with("-%}")) {
        add_data(text, sign, false, at_line_start, line);
        take(begin + size);
        read_raw();
        return;
      }
    }
    take(begin);
    const char kind = rest_[1];
    take(2);
    sign = !rest_.empty() && (rest_.front() == '-' || rest_.front() == '+') ? rest_.front() : '\0';
    add_data(text, sign, kind == '{', at_line_start, line);
    if (sign != '\0') take(1);
    if (kind == '#') return read_comment();
    add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
    read_tag(kind == '{');
  }

  /// Reads the end of a tag, which is `-` or `+`, `end`, and whitespace. Returns false if the rest
  /// begins with something else.
  bool take_end(std::string_view end, bool is_variable) {
    if (rest_.starts_with('-') && rest_.substr(1).starts_with(end)) {
      take(1 + end.size());
      take_space();
      return true;
    }
    if (!is_variable && rest_.starts_with('+') && rest_.substr(1).starts_with(end)) {
      take(1 + end.size());
      return true;
    }
    if (!take_if(end)) return false;
    if (!is_variable) take_if("\n");
    return true;
  }

  void read_comment() {
    if (rest_.empty()) return;  // Jinja ignores the beginning of a comment at the end
    const auto end = rest_.find("#}");
    if (end == rest_.npos)
      fail("expected '#}', the end of a comment, found the end of the template");
    const bool has_sign = end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+');
    take(end - has_sign);
    take_end("#}", false);
  }

  void read_raw() {
    if (take_if("-")) {
      take_if("%}");
      take_space();
    } else {
      take_if("%}");
    }
    if (rest_.empty()) return;
    const auto line = line_;
    const bool at_line_start = at_line_start_;
    for (std::size_t at = rest_.find("{%"); at != rest_.npos; at = rest_.find("{%", at + 1)) {
      char sign = '\0';
      const auto size = tag_size(rest_.substr(at), "endraw", sign);
      const auto after = rest_.substr(at + size);
      if (size == 0 ||
          !(after.starts_with("%}") || after.starts_with("-%}") || after.starts_with("+%}")))
        continue;
      add_data(rest_.substr(0, at), sign, false, at_line_start, line);
      take(at + size);
      take_end("%}", false);
      return;
    }
    fail("expected {% endraw %}, found the end of the template");
  }

  void read_tag(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    std::string open;  // brackets
    while (true) {
      if (open.empty() && take_end(end, is_variable)) {
        add(is_variable ? TokenKind::variable_end : TokenKind::block_end, "");
        return;
      }
      if (rest_.empty()) fail(fmt::format("expected '{}', found the end of the template", end));
      if (without_leading_space(rest_).size() < rest_.size()) {
        take_space();
      } else if (is_digit(rest_.front())) {
        read_number();
      } else if (is_name_start(rest_.front())) {
        std::size_t size = 1;
        while (size < rest_.size() && is_name_part(rest_[size])) ++size;
        add(TokenKind::name, std::string(rest_.substr(0, size)));
        take(size);
      } else if (rest_.front() == '\'' || rest_.front() == '"') {
        read_string();
      } else {
        read_symbol(open);
      }
    }
  }

  /// Returns the number of digits, between which there may be single underscores, at a position.
  std::size_t digits(std::size_t at) const {
    std::size_t size = 0;
    while (at + size < rest_.size()) {
      const auto rest = rest_.substr(at + size);
      if (is_digit(rest.front())) {
        ++size;
      } else if (size > 0 && rest.front() == '_' && rest.size() > 1 && is_digit(rest[1])) {
        size += 2;
      } else {
        break;
      }
    }
    return size;
  }

  void read_number() {
    const auto prefix = rest_.substr(0, 2);
    auto kind = TokenKind::integer;
    std::size_t size = 0;
    if (prefix == "0x" || prefix == "0X" || prefix == "0b" || prefix == "0B" || prefix == "0o" ||
        prefix == "0O") {
      fail(fmt::format("expected a decimal number, found '{}'", prefix));
    }
    size = digits(0);
    const auto at = [&](std::size_t i) { return i < rest_.size() ? rest_[i] : '\0'; };
    if (at(size) == '.' && is_digit(at(size + 1))) {
      kind = TokenKind::real;
      size += 1 + digits(size + 1);
    }
    if (at(size) == 'e' || at(size) == 'E') {
      const std::size_t sign = at(size + 1) == '+' || at(size + 1) == '-';
      if (is_digit(at(size + 1 + sign))) {
        kind = TokenKind::real;
        size += 1 + sign + digits(size + 1 + sign);
      }
    }
    if (is_name_part(at(size))) fail(fmt::format("unexpected '{}' after a number", at(size)));
    std::string text(rest_.substr(0, size));
    std::erase(text, '_');
    if (kind == TokenKind::integer && text.size() > 1 && text.front() == '0' &&
        text.find_first_not_of('0') != text.npos) {
      fail(fmt::format("expected an integer without leading zeros, found {}", text));
    }
    add(kind, std::move(text));
    take(size);
  }

  void read_string() {
    const char quote = rest_.front();
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail(fmt::format("expected {}, the end of a string", quote));
    add(TokenKind::string, unescaped(rest_.substr(1, end - 1)));
    take(end + 1);
  }

  /// Returns a string with its escapes, as in Python, replaced.
  std::string unescaped(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      if (text.front() != '\\') {
        result += text.front();
        text.remove_prefix(1);
        continue;
      }
      const char escape = text[1];  // `read_string` ends no string after a backslash
      text.remove_prefix(2);
      constexpr std::string_view kEscapes = "\n\\'\"abfnrtv";
      constexpr std::string_view kBytes{"\0\\'\"\a\b\f\n\r\t\v", 11};
      if (const auto found = kEscapes.find(escape); found != kEscapes.npos) {
        if (escape != '\n') result += kBytes[found];  // a line break after a backslash is removed
      } else if (escape == 'x' || escape == 'u' || escape == 'U') {
        const std::size_t size = escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
        append_code_point(result, text.substr(0, size), size, 16);
        text.remove_prefix(size);
      } else if (escape >= '0' && escape <= '7') {
        std::string octal(1, escape);
        while (octal.size() < 3 && !text.empty() && text.front() >= '0' && text.front() <= '7') {
          octal += text.front();
          text.remove_prefix(1);
        }
        append_code_point(result, octal, octal.size(), 8);
      } else if (escape == 'N') {
        fail("the escape \\N is not supported");
      } else {
        result += '\\';
        result += escape;
      }
    }
    return result;
  }

  void append_code_point(std::string& result, std::string_view digits, std::size_t size,
                         int base) const {
    char* end = nullptr;
    const std::string text(digits);
    const auto value = std::strtoul(text.c_str(), &end, base);
    const bool is_number =
        text.size() == size && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
    const bool is_surrogate = value >= 0xD800 && value < 0xE000;
    if (!is_number || value > 0x10FFFF || is_surrogate)
      fail(fmt::format("expected a code point in an escape, found '{}'", printable(text)));
    tokenizers::append_character(result, static_cast<char32_t>(value));
  }

  void read_symbol(std::string& open) {
    constexpr std::array<std::string_view, 27> kSymbols{
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
        "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!"};
    const auto* symbol = std::find_if(kSymbols.begin(), kSymbols.end(),
                                      [&](auto each) { return rest_.starts_with(each); });
    if (symbol == kSymbols.end() || *symbol == "!" || *symbol == ";") {
      std::size_t size = 0;
      tokenizers::next_character(rest_, size);
      fail(fmt::format("unexpected '{}' in a tag", printable(rest_.substr(0, size))));
    }
    const char c = symbol->front();
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail(fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail(fmt::format("expected '{}', found '{}'", open.back(), c));
      open.pop_back();
    }
    add(TokenKind::symbol, std::string(*symbol));
    take(symbol->size());
  }

  const std::string source_;
  const std::string& name_;
  std::string_view rest_;  // of source_
  std::vector<Token> tokens_;
  int64_t line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> split_template(std::string_view source, const std::string& name) {
  return Lexer(source, name).split();
}

}  // namespace attend::jinja
