// Methods of texts, lists and dicts, as those of Python.
#include "attend/input_error.h"
#include "tokenizers/characters.h"
#include "tokenizers/jinja/builtins.h"
#include "tokenizers/jinja/python_strings.h"
#include "tokenizers/python_text.h"
#include "tokenizers/unicode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace attend::jinja {
namespace {

constexpr std::array<std::string_view, 26> kTextMethods{
    "capitalize", "count",        "endswith", "find",   "isalpha",      "isdigit",   "islower",
    "isspace",    "isupper",      "join",     "lower",  "lstrip",       "partition", "replace",
    "rfind",      "rpartition",   "rsplit",   "rstrip", "removeprefix", "split",     "splitlines",
    "startswith", "removesuffix", "strip",    "title",  "upper"};
constexpr std::array<std::string_view, 4> kDictMethods{"get", "items", "keys", "values"};
constexpr std::array<std::string_view, 2> kListMethods{"count", "index"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string& text_of(const Value& value, std::string_view method) {
  if (const auto* text = value.text()) return *text;
  throw InputError(fmt::format("'{}' requires a str, found a {}", method, type_name(value)));
}

int64_t integer_of(const Value& value, std::string_view method) {
  if (const auto integer = value.integer()) return *integer;
  throw InputError(fmt::format("'{}' requires an int, found a {}", method, type_name(value)));
}

Value texts(std::vector<std::string> parts) {
  std::vector<Value> values;
  for (auto& part : parts) values.emplace_back(std::move(part));
  return Value::list(std::move(values));
}

/// Returns `text.startswith(prefixes)` or `text.endswith(prefixes)`.
bool has_affix(const std::string& text, const Value& affixes, std::string_view method,
               Budget& budget) {
  const auto matches = [&](const Value& affix) {
    const auto& other = text_of(affix, method);
    if (other.size() > text.size()) return false;
    budget.compare(other.size());
    return method == "startswith" ? text.starts_with(other) : text.ends_with(other);
  };
  const auto* several = affixes.sequence();
  if (several == nullptr || !several->is_tuple) return matches(affixes);
  return std::ranges::any_of(several->items, matches);
}

/// True if the text is not empty and `is_property` is true for all characters.
template <typename Property>
bool all_characters(const std::string& text, const Property& is_property) {
  for (std::size_t at = 0; at < text.size();) {
    if (!is_property(tokenizers::next_character(text, at))) return false;
  }
  return !text.empty();
}

/// Returns the index of a text in another, in characters; -1 if there is none.
int64_t index_of(const std::string& text, const std::string& part, bool last, Budget& budget) {
  budget.search(text.size(), part.size());
  const auto at = last ? text.rfind(part) : text.find(part);
  if (at == std::string::npos) return -1;
  return static_cast<int64_t>(tokenizers::count_characters(std::string_view(text).substr(0, at)));
}

/// Returns the part before the separator, the separator and the part after it.
Value partition(const std::string& text, const std::string& separator, bool last, Budget& budget) {
  if (separator.empty()) throw InputError("'partition' requires a separator that is not empty");
  budget.search(text.size(), separator.size());
  const auto at = last ? text.rfind(separator) : text.find(separator);
  std::vector<Value> parts(3, Value(std::string()));
  if (at == std::string::npos) {
    parts[last ? 2 : 0] = Value(text);
  } else {
    parts[0] = Value(text.substr(0, at));
    parts[1] = Value(separator);
    parts[2] = Value(text.substr(at + separator.size()));
  }
  return Value::list(std::move(parts), /*is_tuple=*/true);
}

Value strip(const std::string& text, std::string_view method, const Arguments& arguments,
            Budget& budget) {
  arguments.check(0, {""});
  const auto chars = arguments.get(0, "", {});
  const auto sides = method == "lstrip"   ? Sides::left
                     : method == "rstrip" ? Sides::right
                                          : Sides::both;
  if (chars.is<None>()) return std::string(stripped_of(text, sides, nullptr));
  budget.step(text_of(chars, method).size());
  return std::string(stripped_of(text, sides, &text_of(chars, method)));
}

Value split(const std::string& text, std::string_view method, const Arguments& arguments,
            Budget& budget) {
  arguments.check(0, {"sep", "maxsplit"});
  const auto separator = arguments.get(0, "sep", {});
  const auto limit = integer_of(arguments.get(1, "maxsplit", int64_t{-1}), method);
  const bool from_right = method == "rsplit";
  if (separator.is<None>()) return texts(split_at_space(text, limit, from_right, budget));
  const auto& at = text_of(separator, method);
  if (at.empty())
    throw InputError(fmt::format("'{}' requires a separator that is not empty", method));
  return texts(split_at(text, at, limit, from_right, budget));
}

Value join(const std::string& separator, const Value& parts, Budget& budget) {
  std::string result;
  bool is_first = true;
  for (const auto& part : iterate(parts, budget)) {
    if (!is_first) result += separator;
    is_first = false;
    result += text_of(part, "join");
    if (result.size() > Budget::kMaxText) break;
  }
  budget.allocate(result.size());
  return result;
}

bool has_property(const std::string& text, std::string_view name) {
  if (name == "isspace") return all_characters(text, is_space);
  if (name == "isalpha") return all_characters(text, tokenizers::is_letter);
  if (name == "isdigit") return all_characters(text, tokenizers::is_digit);
  return has_case(text, name == "isupper");
}

Value call_text_method(const std::string& text, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  const auto argument = [&](std::size_t i) -> const std::string& {
    return text_of(arguments.values[i], name);
  };
  if (name == "startswith" || name == "endswith") {
    arguments.check(1, {""});
    return has_affix(text, arguments.values.front(), name, budget);
  }
  budget.read(text.size());
  if (name.ends_with("strip")) return strip(text, name, arguments, budget);
  if (name == "split" || name == "rsplit") return split(text, name, arguments, budget);
  if (name == "find" || name == "rfind") {
    arguments.check(1, {""});
    return index_of(text, argument(0), name == "rfind", budget);
  }
  if (name == "count") {
    arguments.check(1, {""});
    return count_of(text, argument(0), budget);
  }
  if (name == "partition" || name == "rpartition") {
    arguments.check(1, {""});
    return partition(text, argument(0), name == "rpartition", budget);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    arguments.check(1, {""});
    const auto& affix = argument(0);
    if (name == "removeprefix") return text.starts_with(affix) ? text.substr(affix.size()) : text;
    return text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text;
  }
  if (name == "replace") {
    arguments.check(2, {"", "", "count"});
    return replaced(text, argument(0), argument(1),
                    integer_of(arguments.get(2, "count", int64_t{-1}), name), budget);
  }
  if (name == "join") {
    arguments.check(1, {""});
    return join(text, arguments.values.front(), budget);
  }
  if (name == "splitlines") {
    arguments.check(0, {"keepends"});
    return texts(lines_of(text, is_true(arguments.get(0, "keepends", false)), budget));
  }
  arguments.check(0, {});
  budget.allocate(3 * text.size());
  if (name == "lower") return tokenizers::lowercased(text);
  if (name == "upper") return uppercased(text);
  if (name == "capitalize") return capitalized(text);
  if (name == "title") return title_of(text);
  return has_property(text, name);
}

Value call_dict_method(const Dict& dict, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  if (name == "get") {
    arguments.check(1, {"", ""});
    const auto& key = arguments.values[0];
    check_hashable(key);
    const auto* found = find(dict, key, budget);
    return found == nullptr ? arguments.get(1, "", {}) : *found;
  }
  arguments.check(0, {});
  budget.step(dict.items.size());
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    if (name == "items")
      items.push_back(Value::list({key, value}, /*is_tuple=*/true));
    else
      items.push_back(name == "keys" ? key : value);
  }
  return Value::list(std::move(items));
}

Value call_list_method(const Sequence& sequence, std::string_view name, const Arguments& arguments,
                       Budget& budget) {
  arguments.check(1, {""});
  const auto& wanted = arguments.values.front();
  int64_t count = 0;
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (!equal(sequence.items[i], wanted, budget)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") throw InputError("'index': the list does not contain the value");
  return count;
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return is_one_of(kTextMethods, name);
  if (self.dict() != nullptr) return is_one_of(kDictMethods, name);
  if (self.sequence() != nullptr) return is_one_of(kListMethods, name);
  return self.loop() != nullptr && name == "cycle";
}

Value call_method(const Value& self, std::string_view name, const Arguments& arguments,
                  const Calls& calls) {
  // Most arguments of the methods of Python have no name.
  if (const auto* text = self.text()) return call_text_method(*text, name, arguments, calls.budget);
  if (const auto* dict = self.dict()) return call_dict_method(*dict, name, arguments, calls.budget);
  return call_list_method(*self.sequence(), name, arguments, calls.budget);
}

}  // namespace attend::jinja
