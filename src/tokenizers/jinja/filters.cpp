// Filters and tests, as those of Jinja.
#include "attend/input_error.h"
#include "tokenizers/jinja/builtins.h"
#include "tokenizers/jinja/python_strings.h"
#include "tokenizers/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace attend::jinja {
namespace {

/// A filter with the arguments that it is called with.
struct FilterCall {
  const Value& input;
  const Arguments& arguments;
  const Calls& calls;

  Budget& budget() const { return calls.budget; }
  std::string text() const { return to_text(input, calls.budget); }
  std::vector<Value> items() const { return iterate(input, calls.budget); }
  /// The items of an input that is true; none otherwise.
  std::vector<Value> items_if_true() const {
    return is_true(input) ? items() : std::vector<Value>();
  }
  void check(std::size_t min, const std::vector<std::string_view>& names) const {
    arguments.check(min, names);
  }
  Value get(std::size_t position, std::string_view name, const Value& missing = {}) const {
    return arguments.get(position, name, missing);
  }
  std::string text_of(const Value& value) const { return to_text(value, calls.budget); }
};

struct Filter {
  std::string_view name;
  Value (*apply)(const FilterCall& call);
};

struct Test {
  std::string_view name;
  std::size_t num_arguments;
  bool (*apply)(const Value& value, const Arguments& arguments, Budget& budget);
};

/// Returns the attribute with a path such as "function.name" or "0.role", or the given missing
/// value if it is undefined.
Value attribute(const FilterCall& call, Value value, const Value& path, const Value* missing) {
  if (path.is<None>()) return value;
  if (path.integer()) {
    value = call.calls.get_item(value, path);
  } else {
    for (const auto& part : split_at(call.text_of(path), ".", -1, false, call.budget())) {
      int64_t index = 0;
      const auto* end = part.data() + part.size();
      const auto result = std::from_chars(part.data(), end, index);
      const bool is_index =
          !part.empty() && part.front() != '-' && result.ec == std::errc() && result.ptr == end;
      value = call.calls.get_item(value, is_index ? Value(index) : Value(part));
    }
  }
  return value.is_undefined() && missing != nullptr ? *missing : value;
}

/// Returns a value by which `sort` and similar filters compare: of a text, its lowercase.
Value sort_key(const FilterCall& call, const Value& value, bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  call.budget().allocate(value.text()->size());
  return tokenizers::lowercased(*value.text());
}

/// The items of the input, each with the key by which it is compared.
std::vector<std::pair<Value, Value>> keyed_items(const FilterCall& call, bool case_sensitive,
                                                 const Value& path) {
  std::vector<std::pair<Value, Value>> items;
  for (const auto& item : call.items())
    items.emplace_back(sort_key(call, attribute(call, item, path, nullptr), case_sensitive), item);
  return items;
}

/// Sorts by the keys, without changing the order of equal ones.
void sort_items(const FilterCall& call, std::vector<std::pair<Value, Value>>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, call.budget()) : less(a.first, b.first, call.budget());
  });
}

Value values_of(std::vector<std::pair<Value, Value>> items) {
  std::vector<Value> values;
  for (auto& item : items) values.push_back(std::move(item.second));
  return Value::list(std::move(values));
}

/// Sorts by one or several attributes: `sort(attribute="role,content")`.
Value sort(const FilterCall& call) {
  call.check(0, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = is_true(call.get(1, "case_sensitive", false));
  const auto path = call.get(2, "attribute");
  std::vector<Value> paths{path};
  if (path.text() != nullptr) {
    paths.clear();
    for (auto& part : split_at(*path.text(), ",", -1, false, call.budget()))
      paths.emplace_back(std::move(part));
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& item : call.items()) {
    std::vector<Value> keys;
    for (const auto& each : paths)
      keys.push_back(sort_key(call, attribute(call, item, each, nullptr), case_sensitive));
    items.emplace_back(Value::list(std::move(keys)), item);
  }
  sort_items(call, items, is_true(call.get(0, "reverse", false)));
  return values_of(std::move(items));
}

Value dictsort(const FilterCall& call) {
  call.check(0, {"case_sensitive", "by", "reverse"});
  const auto* dict = call.input.dict();
  if (dict == nullptr)
    throw InputError(fmt::format("'dictsort' requires a dict, found a {}", type_name(call.input)));
  const auto by = call.text_of(call.get(1, "by", std::string("key")));
  if (by != "key" && by != "value")
    throw InputError(fmt::format("'dictsort' sorts by 'key' or 'value', found '{}'", by));
  const bool case_sensitive = is_true(call.get(0, "case_sensitive", false));
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : dict->items) {
    items.emplace_back(sort_key(call, by == "key" ? key : value, case_sensitive),
                       Value::list({key, value}, /*is_tuple=*/true));
  }
  sort_items(call, items, is_true(call.get(2, "reverse", false)));
  return values_of(std::move(items));
}

Value unique(const FilterCall& call) {
  call.check(0, {"case_sensitive", "attribute"});
  std::vector<Value> keys;
  std::vector<Value> values;
  for (auto& [key, item] :
       keyed_items(call, is_true(call.get(0, "case_sensitive", false)), call.get(1, "attribute"))) {
    check_hashable(key);
    const bool is_known = std::ranges::any_of(
        keys, [&, &key = key](const auto& other) { return equal(other, key, call.budget()); });
    if (is_known) continue;
    keys.push_back(key);
    values.push_back(item);
  }
  return Value::list(std::move(values));
}

Value extreme(const FilterCall& call, bool is_max) {
  call.check(0, {"case_sensitive", "attribute"});
  const auto items =
      keyed_items(call, is_true(call.get(0, "case_sensitive", false)), call.get(1, "attribute"));
  if (items.empty()) return Undefined("an item of an empty list");
  const auto* best = &items.front();
  for (const auto& item : std::span(items).subspan(1)) {
    const bool is_better = is_max ? less(best->first, item.first, call.budget())
                                  : less(item.first, best->first, call.budget());
    if (is_better) best = &item;
  }
  return best->second;
}

/// Returns the arguments from `first` on.
Arguments rest_of(const Arguments& arguments, std::size_t first) {
  const auto begin = static_cast<std::ptrdiff_t>(std::min(first, arguments.values.size()));
  return {{arguments.values.begin() + begin, arguments.values.end()}, arguments.keywords};
}

/// select, reject, selectattr and rejectattr. `first`: index of the argument with the test's name.
Value select(const FilterCall& call, bool is_reject, std::size_t first) {
  if (call.arguments.values.size() < first)
    throw InputError("expected the name of an attribute, found no arguments");
  std::vector<Value> chosen;
  const bool has_test = call.arguments.values.size() > first;
  const auto test = has_test ? call.text_of(call.arguments.values[first]) : std::string();
  if (has_test && !is_test(test))
    throw InputError(fmt::format("the test '{}' is unknown or not supported", short_name(test)));
  const auto arguments = rest_of(call.arguments, first + 1);
  for (const auto& item : call.items_if_true()) {
    const auto value = first == 0 ? item : attribute(call, item, call.arguments.values[0], nullptr);
    const bool passes = has_test ? apply_test(test, value, arguments, call.calls) : is_true(value);
    if (passes != is_reject) chosen.push_back(item);
  }
  return Value::list(std::move(chosen));
}

/// Limits how often `map('map', 'map', ...)` calls itself.
constexpr std::size_t kMaxMapArguments = 20;

Value map(const FilterCall& call) {
  std::vector<Value> values;
  if (const auto* path =
          call.arguments.values.empty() ? call.arguments.find(0, "attribute") : nullptr) {
    const auto* missing = call.arguments.find(1, "default");
    for (const auto& item : call.items_if_true())
      values.push_back(attribute(call, item, *path, missing));
    return Value::list(std::move(values));
  }
  if (call.arguments.values.empty())
    throw InputError("'map' requires the name of a filter or attribute=NAME");
  if (call.arguments.values.size() > kMaxMapArguments) {
    throw InputError(fmt::format("'map' has {} arguments, expected at most {}",
                                 call.arguments.values.size(), kMaxMapArguments));
  }
  const auto filter = call.text_of(call.arguments.values.front());
  if (!is_filter(filter))
    throw InputError(
        fmt::format("the filter '{}' is unknown or not supported", short_name(filter)));
  const auto arguments = rest_of(call.arguments, 1);
  for (const auto& item : call.items_if_true())
    values.push_back(apply_filter(filter, item, arguments, call.calls));
  return Value::list(std::move(values));
}

Value join(const FilterCall& call) {
  call.check(0, {"d", "attribute"});
  const auto separator = call.text_of(call.get(0, "d", std::string()));
  const auto path = call.get(1, "attribute");
  std::string result;
  bool is_first = true;
  for (const auto& item : call.items()) {
    if (!is_first) result += separator;
    is_first = false;
    result += call.text_of(attribute(call, item, path, nullptr));
    if (result.size() > Budget::kMaxText) break;
  }
  call.budget().allocate(result.size());
  return result;
}

Value indent(const FilterCall& call) {
  call.check(0, {"width", "first", "blank"});
  const auto width = call.get(0, "width", int64_t{4});
  const auto count = width.integer();
  if (count && *count > 1000)
    throw InputError(fmt::format("'indent' by {}, expected at most 1000", *count));
  const auto space = count
                         ? std::string(static_cast<std::size_t>(std::max<int64_t>(*count, 0)), ' ')
                         : call.text_of(width);
  const bool blank = is_true(call.get(2, "blank", false));
  std::string result = is_true(call.get(1, "first", false)) ? space : "";
  bool is_first = true;
  if (call.input.text() == nullptr)
    throw InputError(fmt::format("'indent' requires a str, found a {}", type_name(call.input)));
  for (const auto& line : lines_of(*call.input.text() + "\n", false, call.budget())) {
    if (!is_first) result += "\n";
    if (!is_first && (blank || !line.empty())) result += space;
    is_first = false;
    result += line;
    if (result.size() > Budget::kMaxText) break;
  }
  call.budget().allocate(result.size());
  return result;
}

Value tojson(const FilterCall& call) {
  call.check(0, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options{.ensure_ascii = is_true(call.get(0, "ensure_ascii", false)),
                      .sort_keys = is_true(call.get(3, "sort_keys", false))};
  const auto width = call.get(1, "indent");
  if (!width.is<None>()) {
    options.has_indent = true;
    options.item_separator = ",";
    const auto count = width.integer();
    if (count && *count > 1000)
      throw InputError(fmt::format("'tojson' with an indent of {}, expected at most 1000", *count));
    options.indent = count
                         ? std::string(static_cast<std::size_t>(std::max<int64_t>(*count, 0)), ' ')
                         : call.text_of(width);
  }
  if (const auto separators = call.get(2, "separators"); !separators.is<None>()) {
    const auto pair = iterate(separators, call.budget());
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr)
      throw InputError("'tojson' requires two texts as separators");
    options.item_separator = *pair[0].text();
    options.key_separator = *pair[1].text();
  }
  return to_json(call.input, options, call.budget());
}

/// Parses a number as `int(text)` or `float(text)` in Python.
std::optional<double> parsed_float(std::string_view text) {
  auto trimmed = std::string(tokenizers::stripped(text));
  std::erase(trimmed, '_');
  const bool has_sign = trimmed.starts_with('+') || trimmed.starts_with('-');
  const auto digits = std::string_view(trimmed).substr(has_sign);
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != digits.npos)
    return std::nullopt;
  double value = 0.0;
  const auto* end = digits.data() + digits.size();
  if (const auto result = std::from_chars(digits.data(), end, value);
      result.ec != std::errc() || result.ptr != end)
    return std::nullopt;
  return trimmed.front() == '-' ? -value : value;
}

Value to_int(const FilterCall& call) {
  call.check(0, {"default", "base"});
  if (call.get(1, "base", int64_t{10}).integer() != int64_t{10})
    throw InputError("'int' supports only the base 10");
  if (const auto integer = call.input.integer()) return *integer;
  const auto* text = call.input.text();
  if (text != nullptr) {
    auto trimmed = std::string(tokenizers::stripped(*text));
    std::erase(trimmed, '_');
    if (trimmed.starts_with('+')) trimmed.erase(0, 1);
    int64_t value = 0;
    const auto* end = trimmed.data() + trimmed.size();
    if (const auto result = std::from_chars(trimmed.data(), end, value);
        result.ec == std::errc() && result.ptr == end && !trimmed.starts_with("+"))
      return value;
  }
  const auto number = text != nullptr           ? parsed_float(*text)
                      : call.input.is<double>() ? std::optional(call.input.number())
                                                : std::nullopt;
  if (call.input.is_undefined())
    throw InputError(fmt::format("'int': {} is undefined", *call.input.get_if<Undefined>()->what));
  if (!number || !(std::abs(*number) < 9e18)) return call.get(0, "default", int64_t{0});
  return static_cast<int64_t>(*number);
}

Value to_float(const FilterCall& call) {
  call.check(0, {"default"});
  if (call.input.is_number()) return call.input.number();
  if (call.input.is_undefined())
    throw InputError(
        fmt::format("'float': {} is undefined", *call.input.get_if<Undefined>()->what));
  const auto number =
      call.input.text() != nullptr ? parsed_float(*call.input.text()) : std::nullopt;
  return number ? Value(*number) : call.get(0, "default", 0.0);
}

Value sum(const FilterCall& call) {
  call.check(0, {"attribute", "start"});
  int64_t whole = 0;
  double real = 0.0;
  bool is_real = false;
  auto items = call.items();
  for (auto& item : items) item = attribute(call, item, call.get(0, "attribute"), nullptr);
  items.insert(items.begin(), call.get(1, "start", int64_t{0}));
  for (const auto& item : items) {
    real += item.number();
    is_real |= item.is<double>();
    if (item.integer() && __builtin_add_overflow(whole, *item.integer(), &whole))
      throw InputError("'sum': an integer has more than 63 bits");
  }
  return is_real ? Value(real) : Value(whole);
}

/// The filter `title`, which differs from the method of a text.
std::string title_filter(std::string_view text) {
  std::string result;
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const auto first = std::string(characters_of(word).front());
    result +=
        uppercased(first) + tokenizers::lowercased(std::string_view(word).substr(first.size()));
    word.clear();
  };
  for (const auto character : characters_of(text)) {
    const bool is_separator = std::string_view("-({[<").find(character) != std::string_view::npos ||
                              stripped_of(character, Sides::both, nullptr).empty();
    if (is_separator) {
      end_word();
      result += character;
    } else {
      word += character;
    }
  }
  end_word();
  return result;
}

Value trim(const FilterCall& call) {
  call.check(0, {"chars"});
  const auto chars = call.get(0, "chars");
  if (chars.is<None>()) return std::string(stripped_of(call.text(), Sides::both, nullptr));
  const auto set = call.text_of(chars);
  call.budget().step(set.size());
  return std::string(stripped_of(call.text(), Sides::both, &set));
}

Value replace(const FilterCall& call) {
  call.check(2, {"old", "new", "count"});
  const auto count = call.get(2, "count").integer();
  return replaced(call.text(), call.text_of(call.get(0, "old")), call.text_of(call.get(1, "new")),
                  count.value_or(-1), call.budget());
}

Value default_of(const FilterCall& call) {
  call.check(0, {"default_value", "boolean"});
  const bool is_missing =
      call.input.is_undefined() || (is_true(call.get(1, "boolean", false)) && !is_true(call.input));
  return is_missing ? call.get(0, "default_value", std::string()) : call.input;
}

Value length_of(const FilterCall& call) {
  return length(call.input, call.budget());
}

Value first_or_last(const FilterCall& call, bool is_last) {
  call.check(0, {});
  const auto items = call.items();
  if (items.empty()) return Undefined("an item of an empty list");
  return is_last ? items.back() : items.front();
}

Value reverse(const FilterCall& call) {
  call.check(0, {});
  auto items = call.items();
  std::reverse(items.begin(), items.end());
  if (call.input.text() == nullptr) return Value::list(std::move(items));
  std::string text;
  for (const auto& character : items) text += *character.text();
  call.budget().allocate(text.size());
  return text;
}

Value items_of(const FilterCall& call) {
  call.check(0, {});
  if (call.input.is_undefined()) return Value::list({});
  if (call.input.dict() == nullptr)
    throw InputError(fmt::format("'items' requires a dict, found a {}", type_name(call.input)));
  return call_method(call.input, "items", {}, call.calls);
}

Value absolute(const FilterCall& call) {
  call.check(0, {});
  if (const auto integer = call.input.integer())
    return *integer == INT64_MIN ? Value(-static_cast<double>(INT64_MIN))
                                 : Value(std::abs(*integer));
  return std::abs(call.input.number());
}

/// A filter of the text of its input, without arguments.
template <std::string (*function)(std::string_view)>
Value of_text(const FilterCall& call) {
  call.check(0, {});
  const auto text = call.text();
  call.budget().allocate(3 * text.size());
  return function(text);
}

constexpr Filter kFilters[] = {
    {"abs", absolute},
    {"capitalize", of_text<capitalized>},
    {"count", length_of},
    {"d", default_of},
    {"default", default_of},
    {"dictsort", dictsort},
    {"first", [](const FilterCall& call) { return first_or_last(call, false); }},
    {"float", to_float},
    {"indent", indent},
    {"int", to_int},
    {"items", items_of},
    {"join", join},
    {"last", [](const FilterCall& call) { return first_or_last(call, true); }},
    {"length", length_of},
    {"list", [](const FilterCall& call) { return Value::list(call.items()); }},
    {"lower", of_text<tokenizers::lowercased>},
    {"map", map},
    {"max", [](const FilterCall& call) { return extreme(call, true); }},
    {"min", [](const FilterCall& call) { return extreme(call, false); }},
    {"reject", [](const FilterCall& call) { return select(call, true, 0); }},
    {"rejectattr", [](const FilterCall& call) { return select(call, true, 1); }},
    {"replace", replace},
    {"reverse", reverse},
    {"safe", [](const FilterCall& call) { return Value(call.text()); }},
    {"select", [](const FilterCall& call) { return select(call, false, 0); }},
    {"selectattr", [](const FilterCall& call) { return select(call, false, 1); }},
    {"sort", sort},
    {"string", [](const FilterCall& call) { return Value(call.text()); }},
    {"sum", sum},
    {"title", of_text<title_filter>},
    {"tojson", tojson},
    {"trim", trim},
    {"unique", unique},
    {"upper", of_text<uppercased>},
};

bool is_sequence(const Value& value, const Arguments&, Budget&) {
  return value.sequence() != nullptr || value.text() != nullptr || value.dict() != nullptr ||
         value.is_undefined();
}

template <typename T>
bool is_type(const Value& value, const Arguments&, Budget&) {
  return value.is<T>();
}

bool is_equal(const Value& value, const Arguments& arguments, Budget& budget) {
  return equal(value, arguments.values[0], budget);
}
bool is_unequal(const Value& value, const Arguments& arguments, Budget& budget) {
  return !equal(value, arguments.values[0], budget);
}
bool is_less(const Value& value, const Arguments& arguments, Budget& budget) {
  return less(value, arguments.values[0], budget);
}
bool is_greater(const Value& value, const Arguments& arguments, Budget& budget) {
  return less(arguments.values[0], value, budget);
}
bool is_at_most(const Value& value, const Arguments& arguments, Budget& budget) {
  return is_less(value, arguments, budget) || is_equal(value, arguments, budget);
}
bool is_at_least(const Value& value, const Arguments& arguments, Budget& budget) {
  return is_greater(value, arguments, budget) || is_equal(value, arguments, budget);
}

/// Returns `value % divisor`, with the sign of the value.
double remainder(const Value& value, const Value& divisor) {
  if (divisor.number() == 0.0) throw InputError("division by zero");
  const auto x = value.integer();
  const auto y = divisor.integer();
  if (x && y) return *y == -1 ? 0.0 : static_cast<double>(*x % *y);  // INT64_MIN % -1 is undefined
  return std::fmod(value.number(), divisor.number());
}

/// True if `value % 2` is 0 or, of an odd number, 1.
bool is_even_or_odd(const Value& value, double wanted) {
  const auto rest = remainder(value, int64_t{2});
  return (rest < 0.0 ? rest + 2.0 : rest) == wanted;
}

bool is_in_case(const Value& value, bool upper, Budget& budget) {
  const auto text = to_text(value, budget);
  budget.read(text.size());
  return has_case(text, upper);
}

bool is_divisible(const Value& value, const Arguments& arguments, Budget&) {
  return remainder(value, arguments.values[0]) == 0.0;
}

constexpr Test kTests[] = {
    {"!=", 1, is_unequal},
    {"<", 1, is_less},
    {"<=", 1, is_at_most},
    {"==", 1, is_equal},
    {">", 1, is_greater},
    {">=", 1, is_at_least},
    {"boolean", 0, is_type<bool>},
    {"callable", 0,
     [](const Value& value, const Arguments&, Budget&) { return value.is_callable(); }},
    {"defined", 0,
     [](const Value& value, const Arguments&, Budget&) { return !value.is_undefined(); }},
    {"divisibleby", 1, is_divisible},
    {"eq", 1, is_equal},
    {"equalto", 1, is_equal},
    {"even", 0,
     [](const Value& value, const Arguments&, Budget&) { return is_even_or_odd(value, 0.0); }},
    {"false", 0,
     [](const Value& value, const Arguments&, Budget&) {
       return value.is<bool>() && !is_true(value);
     }},
    {"float", 0, is_type<double>},
    {"ge", 1, is_at_least},
    {"greaterthan", 1, is_greater},
    {"gt", 1, is_greater},
    {"in", 1,
     [](const Value& value, const Arguments& arguments, Budget& budget) {
       return contains(arguments.values[0], value, budget);
     }},
    {"integer", 0, is_type<int64_t>},
    {"iterable", 0, is_sequence},
    {"le", 1, is_at_most},
    {"lessthan", 1, is_less},
    {"lower", 0,
     [](const Value& value, const Arguments&, Budget& budget) {
       return is_in_case(value, false, budget);
     }},
    {"lt", 1, is_less},
    {"mapping", 0,
     [](const Value& value, const Arguments&, Budget&) { return value.dict() != nullptr; }},
    {"ne", 1, is_unequal},
    {"none", 0, is_type<None>},
    {"number", 0, [](const Value& value, const Arguments&, Budget&) { return value.is_number(); }},
    {"odd", 0,
     [](const Value& value, const Arguments&, Budget&) { return is_even_or_odd(value, 1.0); }},
    {"sequence", 0, is_sequence},
    {"string", 0,
     [](const Value& value, const Arguments&, Budget&) { return value.text() != nullptr; }},
    {"true", 0,
     [](const Value& value, const Arguments&, Budget&) {
       return value.is<bool>() && is_true(value);
     }},
    {"undefined", 0,
     [](const Value& value, const Arguments&, Budget&) { return value.is_undefined(); }},
    {"upper", 0,
     [](const Value& value, const Arguments&, Budget& budget) {
       return is_in_case(value, true, budget);
     }},
};

template <typename Rows>
auto find_row(const Rows& rows, std::string_view name) {
  return std::ranges::find_if(rows, [&](const auto& row) { return row.name == name; });
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_row(kFilters, name) != std::end(kFilters);
}

bool is_test(std::string_view name) {
  return find_row(kTests, name) != std::end(kTests);
}

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   const Calls& calls) {
  calls.budget.step(arguments.values.size());
  calls.budget.read(input.text() == nullptr ? 0 : input.text()->size());
  return find_row(kFilters, name)->apply({input, arguments, calls});
}

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments,
                const Calls& calls) {
  calls.budget.step();
  const auto test = find_row(kTests, name);
  if (arguments.values.size() != test->num_arguments || !arguments.keywords.empty()) {
    throw InputError(fmt::format("the test '{}' requires {} arguments, found {}", name,
                                 test->num_arguments,
                                 arguments.values.size() + arguments.keywords.size()));
  }
  return test->apply(input, arguments, calls.budget);
}

}  // namespace attend::jinja
