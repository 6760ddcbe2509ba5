#include "tokenizers/jinja/value.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"
#include "tokenizers/unicode.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace attend::jinja {
namespace {

void check_depth(int64_t depth) {
  if (depth > Budget::kMaxDepth) {
    throw InputError(
        fmt::format("found lists or objects in each other to a depth of more than {}", depth - 1));
  }
}

bool is_same(double a, double b) {
  return a == b;
}

bool equal_texts(const std::string& a, const std::string& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  budget.compare(a.size());
  return a == b;
}

/// Returns -1, 0 or 1; 0 also if one of the numbers is NaN.
int compare(const Value& a, const Value& b) {
  const auto x = a.integer();
  const auto y = b.integer();
  if (x && y) return *x < *y ? -1 : *x > *y;
  return a.number() < b.number() ? -1 : a.number() > b.number();
}

/// Appends `repr(text)`.
void append_repr(std::string& out, std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const auto character = tokenizers::next_character(text, at);
    if (character == static_cast<char32_t>(quote) || character == U'\\') {
      out += '\\';
      out += static_cast<char>(character);
    } else if (character == U'\n') {
      out += "\\n";
    } else if (character == U'\r') {
      out += "\\r";
    } else if (character == U'\t') {
      out += "\\t";
    } else if (tokenizers::is_printable(character)) {
      out += text.substr(begin, at - begin);
    } else if (character < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(character));
    } else if (character < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(character));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(character));
    }
  }
  out += quote;
}

/// Appends `repr(value)`, which of a text is quoted and of other values is `str(value)`.
void append_text(std::string& out, const Value& value, bool quoted, Budget& budget) {
  budget.step();
  if (out.size() > Budget::kMaxText) budget.allocate(out.size());  // throws
  if (value.is_undefined()) {
    out += quoted ? "Undefined" : "";
  } else if (value.is<None>()) {
    out += "None";
  } else if (const auto* boolean = value.get_if<bool>()) {
    out += *boolean ? "True" : "False";
  } else if (const auto integer = value.integer()) {
    out += fmt::to_string(*integer);
  } else if (const auto* number = value.get_if<double>()) {
    out += float_text(*number);
  } else if (const auto* text = value.text()) {
    quoted ? append_repr(out, *text) : void(out += *text);
  } else if (const auto* sequence = value.sequence()) {
    out += sequence->is_tuple ? '(' : '[';
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
      if (i > 0) out += ", ";
      append_text(out, sequence->items[i], /*quoted=*/true, budget);
    }
    if (sequence->is_tuple && sequence->items.size() == 1) out += ',';
    out += sequence->is_tuple ? ')' : ']';
  } else if (const auto* dict = value.dict()) {
    out += '{';
    for (std::size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) out += ", ";
      append_text(out, dict->items[i].first, /*quoted=*/true, budget);
      out += ": ";
      append_text(out, dict->items[i].second, /*quoted=*/true, budget);
    }
    out += '}';
  } else {
    throw InputError(fmt::format("cannot print a {}", type_name(value)));
  }
}

void append_json_text(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const auto character = static_cast<uint32_t>(tokenizers::next_character(text, at));
    switch (character) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (character >= 0x20 && (character < 0x7F || !ensure_ascii)) {
          out += text.substr(begin, at - begin);
        } else if (character < 0x10000) {
          out += fmt::format("\\u{:04x}", character);
        } else {  // a surrogate pair
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (character >> 10),
                             0xDC00 + (character & 0x3FF));
        }
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(const JsonOptions& options, Budget& budget) : options_(options), budget_(budget) {}

  std::string write(const Value& value) && {
    append(value, 0);
    budget_.allocate(out_.size());
    return std::move(out_);
  }

 private:
  void append(const Value& value, int64_t level) {
    budget_.step();
    if (out_.size() > Budget::kMaxText) budget_.allocate(out_.size());  // throws
    if (const auto* text = value.text()) {
      append_json_text(out_, *text, options_.ensure_ascii);
    } else if (const auto* sequence = value.sequence()) {
      append_all('[', ']', sequence->items.size(), level,
                 [&](std::size_t i) { append(sequence->items[i], level + 1); });
    } else if (const auto* dict = value.dict()) {
      auto items = dict->items;
      if (options_.sort_keys) {
        std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
          return less(a.first, b.first, budget_);
        });
      }
      append_all('{', '}', items.size(), level, [&](std::size_t i) {
        append_json_text(out_, key(items[i].first), options_.ensure_ascii);
        out_ += options_.key_separator;
        append(items[i].second, level + 1);
      });
    } else {
      out_ += scalar(value);
    }
  }

  std::string key(const Value& value) const {
    return value.text() != nullptr ? *value.text() : scalar(value);
  }

  std::string scalar(const Value& value) const {
    if (value.is<None>()) return "null";
    if (const auto* boolean = value.get_if<bool>()) return *boolean ? "true" : "false";
    if (const auto integer = value.integer()) return fmt::to_string(*integer);
    const auto* number = value.get_if<double>();
    if (number == nullptr)
      throw InputError(fmt::format("tojson: cannot write a {} as JSON", type_name(value)));
    if (std::isnan(*number)) return "NaN";
    if (std::isinf(*number)) return *number > 0 ? "Infinity" : "-Infinity";
    return float_text(*number);
  }

  template <typename Append>
  void append_all(char open, char close, std::size_t count, int64_t level, const Append& append) {
    out_ += open;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += options_.item_separator;
      break_line(level + 1);
      append(i);
    }
    if (count > 0) break_line(level);
    out_ += close;
  }

  void break_line(int64_t level) {
    if (!options_.has_indent) return;
    out_ += '\n';
    for (int64_t i = 0; i < level; ++i) out_ += options_.indent;
  }

  const JsonOptions& options_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

void Budget::step(std::size_t steps) {
  if (steps > steps_) throw InputError("the template takes more than 5,000,000 steps");
  steps_ -= steps;
}

void Budget::search(std::size_t bytes, std::size_t part_bytes) {
  if (part_bytes <= bytes) read(bytes);
  if (part_bytes <= bytes) step((bytes - part_bytes + 1) / 64 * part_bytes / 64);
}

void Budget::allocate(std::size_t bytes) {
  if (bytes > kMaxText) throw InputError("the template makes a text of more than 16 MiB");
  if (bytes > bytes_) throw InputError("the template makes texts of more than 256 MiB");
  bytes_ -= bytes;
}

Value Value::list(std::vector<Value> items, bool is_tuple) {
  auto sequence = std::make_shared<Sequence>();
  for (const auto& item : items) sequence->depth = std::max(sequence->depth, item.depth() + 1);
  check_depth(sequence->depth);
  sequence->is_hashable = is_tuple && std::ranges::all_of(items, jinja::is_hashable);
  sequence->items = std::move(items);
  sequence->is_tuple = is_tuple;
  Value value;
  value.data_ = std::shared_ptr<const Sequence>(std::move(sequence));
  return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, item] : items)
    dict->depth = std::max({dict->depth, key.depth() + 1, item.depth() + 1});
  check_depth(dict->depth);
  dict->items = std::move(items);
  Value value;
  value.data_ = std::shared_ptr<const Dict>(std::move(dict));
  return value;
}

Value Value::of_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) {
    if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX})
      throw InputError(fmt::format("the integer {} has more than 63 bits", json.dump()));
    return json.get<int64_t>();
  }
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(of_json(item));
    return list(std::move(items));
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : json.items()) items.emplace_back(std::string(key), of_json(item));
  return dict(std::move(items));
}

std::optional<int64_t> Value::integer() const {
  if (const auto* boolean = get_if<bool>()) return *boolean;
  if (const auto* integer = get_if<int64_t>()) return *integer;
  return std::nullopt;
}

bool Value::is_callable() const {
  // An undefined value has a method for calls, too, which always fails.
  return method() != nullptr || is<const Statement*>() || is<Function>() || is_undefined();
}

double Value::number() const {
  if (const auto whole = integer()) return static_cast<double>(*whole);
  if (const auto* number = get_if<double>()) return *number;
  throw InputError(fmt::format("expected a number, found a {}", type_name(*this)));
}

int64_t Value::depth() const {
  if (const auto* items = sequence()) return items->depth;
  if (const auto* items = dict()) return items->depth;
  if (const auto* state = loop()) return state->items->depth + 1;
  if (const auto* bound = method()) return bound->self.depth() + 1;
  return 0;
}

std::string type_name(const Value& value) {
  if (const auto* undefined = value.get_if<Undefined>())
    return fmt::format("undefined value ({})", *undefined->what);
  if (value.is<None>()) return "None";
  if (value.is<bool>()) return "bool";
  if (value.is<int64_t>()) return "int";
  if (value.is<double>()) return "float";
  if (value.text() != nullptr) return "str";
  if (const auto* sequence = value.sequence()) return sequence->is_tuple ? "tuple" : "list";
  if (value.dict() != nullptr) return "dict";
  if (value.is<Namespace*>()) return "namespace";
  if (value.loop() != nullptr) return "loop";
  return "function";
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is<None>()) return false;
  if (const auto integer = value.integer()) return *integer != 0;
  if (const auto* number = value.get_if<double>()) return *number != 0.0;
  if (const auto* text = value.text()) return !text->empty();
  if (const auto* sequence = value.sequence()) return !sequence->items.empty();
  if (const auto* dict = value.dict()) return !dict->items.empty();
  return true;
}

std::string to_text(const Value& value, Budget& budget) {
  std::string out;
  append_text(out, value, /*quoted=*/false, budget);
  budget.allocate(out.size());
  return out;
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char digits[32];
  const auto magnitude = std::abs(number);
  // Python writes exponents below -4 and from 16.
  const bool is_scientific = magnitude != 0.0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = is_scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, format).ptr;
  std::string text(digits, end);
  if (!is_scientific && text.find('.') == text.npos) text += ".0";
  return text;
}

std::string to_json(const Value& value, const JsonOptions& options, Budget& budget) {
  return JsonWriter(options, budget).write(value);
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    const auto x = a.integer();
    const auto y = b.integer();
    return x && y ? *x == *y : is_same(a.number(), b.number());
  }
  if (a.text() != nullptr && b.text() != nullptr) return equal_texts(*a.text(), *b.text(), budget);
  if (const auto* x = a.sequence(), *y = b.sequence(); x != nullptr && y != nullptr) {
    if (x->is_tuple != y->is_tuple || x->items.size() != y->items.size()) return false;
    for (std::size_t i = 0; i < x->items.size(); ++i) {
      if (!equal(x->items[i], y->items[i], budget)) return false;
    }
    return true;
  }
  if (const auto* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    if (x->items.size() != y->items.size()) return false;
    return std::ranges::all_of(x->items, [&](const auto& item) {
      const auto* found = find(*y, item.first, budget);
      return found != nullptr && equal(item.second, *found, budget);
    });
  }
  if (a.is_undefined()) return b.is_undefined();
  if (a.is<None>()) return b.is<None>();
  if (const auto* x = a.get_if<Namespace*>(), *y = b.get_if<Namespace*>(); x && y) return *x == *y;
  return false;
}

bool less(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return compare(a, b) < 0;
  if (a.text() != nullptr && b.text() != nullptr) {
    budget.compare(std::min(a.text()->size(), b.text()->size()));
    return *a.text() < *b.text();
  }
  const auto* x = a.sequence();
  const auto* y = b.sequence();
  if (x == nullptr || y == nullptr || x->is_tuple != y->is_tuple) {
    throw InputError(fmt::format("cannot compare a {} with a {}", type_name(a), type_name(b)));
  }
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!equal(x->items[i], y->items[i], budget)) return less(x->items[i], y->items[i], budget);
  }
  return x->items.size() < y->items.size();
}

bool is_hashable(const Value& value) {
  const auto* sequence = value.sequence();
  return sequence == nullptr ? value.dict() == nullptr : sequence->is_hashable;
}

void check_hashable(const Value& key) {
  if (!is_hashable(key))
    throw InputError(fmt::format("a {} cannot be the key of a dict", type_name(key)));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_undefined()) return false;
  if (const auto* dict = container.dict()) {
    check_hashable(item);
    return find(*dict, item, budget) != nullptr;
  }
  if (const auto* text = container.text()) {
    if (item.text() == nullptr) {
      throw InputError(
          fmt::format("`in` a str requires a str on the left side, found a {}", type_name(item)));
    }
    budget.search(text->size(), item.text()->size());
    return text->find(*item.text()) != std::string::npos;
  }
  if (const auto* sequence = container.sequence()) {
    return std::ranges::any_of(sequence->items,
                               [&](const auto& each) { return equal(each, item, budget); });
  }
  throw InputError(fmt::format("`in` requires a str, list or dict on the right side, found a {}",
                               type_name(container)));
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
  budget.step(1 + dict.items.size() / 8);
  if (const auto* name = key.text()) {
    for (const auto& [other, value] : dict.items) {
      if (other.text() != nullptr && equal_texts(*other.text(), *name, budget)) return &value;
    }
    return nullptr;
  }
  for (const auto& [other, value] : dict.items) {
    if (equal(other, key, budget)) return &value;
  }
  return nullptr;
}

std::vector<Value> iterate(const Value& value, Budget& budget) {
  if (value.is_undefined()) return {};
  if (value.sequence() == nullptr && value.dict() == nullptr && value.text() == nullptr)
    throw InputError(fmt::format("cannot iterate over a {}", type_name(value)));
  budget.step(static_cast<std::size_t>(length(value, budget)));
  if (const auto* sequence = value.sequence()) return sequence->items;
  std::vector<Value> items;
  if (const auto* dict = value.dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else {
    for (const auto character : characters_of(*value.text()))
      items.emplace_back(std::string(character));
  }
  return items;
}

int64_t length(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  if (const auto* sequence = value.sequence()) return std::ssize(sequence->items);
  if (const auto* dict = value.dict()) return std::ssize(dict->items);
  if (const auto* text = value.text()) {
    budget.compare(text->size());
    return static_cast<int64_t>(tokenizers::count_characters(*text));
  }
  if (const auto* loop = value.loop()) return std::ssize(loop->items->items);
  throw InputError(fmt::format("a {} has no length", type_name(value)));
}

std::string short_name(std::string_view name) {
  constexpr std::size_t kMaxBytes = 60;
  auto size = std::min(name.size(), kMaxBytes);
  while (size > 0 && size < name.size() && (name[size] & 0xC0) == 0x80) --size;  // in a character
  return printable(name.substr(0, size));
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    tokenizers::next_character(text, at);
    characters.push_back(text.substr(begin, at - begin));
  }
  return characters;
}

}  // namespace attend::jinja
