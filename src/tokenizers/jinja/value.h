#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// Values of templates, which behave as those of Python.
namespace attend::jinja {

class Value;
struct Statement;

/// Limits what a template of a foreign folder may cost. Each function that takes a Budget throws
/// InputError when it is exhausted.
class Budget {
 public:
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  ///< bytes of each text
  static constexpr int64_t kMaxDepth = 100;                       ///< of nested lists and objects

  /// Counts evaluated nodes, compared elements and so on.
  void step(std::size_t steps = 1);
  /// Counts the steps of a function that reads each character of a text.
  void read(std::size_t bytes) { step(1 + bytes / 16); }
  /// Counts the steps of a comparison, or a copy, of the bytes of a text.
  void compare(std::size_t bytes) { step(1 + bytes / 64); }
  /// Counts the steps of a search for all places of a part in a text, of which each may be compared
  /// with most of the part.
  void search(std::size_t bytes, std::size_t part_bytes);
  /// Counts the bytes of a new text, which may be at most kMaxText.
  void allocate(std::size_t bytes);

 private:
  std::size_t steps_ = 5'000'000;
  std::size_t bytes_ = std::size_t{256} << 20;
};

/// The value of a name or an attribute that does not exist. `what` says which, for messages.
struct Undefined {
  explicit Undefined(std::string text)
      : what(std::make_shared<const std::string>(std::move(text))) {}
  std::shared_ptr<const std::string> what;
};

struct None {};

/// A list or a tuple.
struct Sequence {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_hashable = false;  ///< a tuple of values that can be keys of a dict
  int64_t depth = 1;
};

/// A dict, in the order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int64_t depth = 1;
};

/// An object whose attributes `set` changes. The renderer owns it, since it may contain itself.
struct Namespace {
  std::map<std::string, Value> attributes;
};

/// The variable `loop`.
struct Loop;

/// A method of a value without its call, such as `text.strip`.
struct Method;

/// A function that every template can call, such as `range`.
struct Function {
  std::string_view name;  ///< a literal
};

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Variant =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Loop>,
                   std::shared_ptr<const Method>, const Statement*, Function>;

  Value() : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char*) = delete;  // would become a bool
  Value(Namespace* value) : data_(value) {}
  Value(std::shared_ptr<const Loop> loop) : data_(std::move(loop)) {}
  Value(std::shared_ptr<const Method> method) : data_(std::move(method)) {}
  Value(const Statement* macro) : data_(macro) {}
  Value(Function function) : data_(function) {}

  /// Throws InputError if the values are nested too deeply.
  static Value list(std::vector<Value> items, bool is_tuple = false);
  static Value dict(std::vector<std::pair<Value, Value>> items);
  static Value of_json(const nlohmann::ordered_json& json);

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }

  const std::string* text() const { return pointer<std::string>(); }
  const Sequence* sequence() const { return pointer<Sequence>(); }
  const Dict* dict() const { return pointer<Dict>(); }
  const Loop* loop() const { return pointer<Loop>(); }
  const Method* method() const { return pointer<Method>(); }
  /// Returns an integer or a bool, which counts as 0 or 1; std::nullopt otherwise.
  std::optional<int64_t> integer() const;
  bool is_undefined() const { return is<Undefined>(); }
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  bool is_callable() const;
  /// Throws InputError unless it is a number.
  double number() const;
  int64_t depth() const;

 private:
  template <typename T>
  const T* pointer() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&data_);
    return found == nullptr ? nullptr : found->get();
  }

  Variant data_;
};

struct Loop {
  std::shared_ptr<const Sequence> items;
  int64_t index = 0;  ///< from 0
  int64_t depth = 1;  ///< 1 in the outermost loop
};

struct Method {
  Value self;
  std::string name;
};

/// Returns the name of the type in Python, such as "str".
std::string type_name(const Value& value);
bool is_true(const Value& value);
/// Returns `str(value)`. Throws InputError for a value without a useful text, such as a function.
std::string to_text(const Value& value, Budget& budget);
/// Returns `repr(number)`.
std::string float_text(double number);

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
/// Returns `json.dumps(value)`.
std::string to_json(const Value& value, const JsonOptions& options, Budget& budget);

bool equal(const Value& a, const Value& b, Budget& budget);
/// Returns `a < b`. Throws InputError for types without an order.
bool less(const Value& a, const Value& b, Budget& budget);
/// Returns `item in container`.
bool contains(const Value& container, const Value& item, Budget& budget);
/// True for a value that can be the key of a dict: not a list, a dict, or a tuple that contains
/// one.
bool is_hashable(const Value& value);
/// Throws InputError for a value that cannot be the key of a dict.
void check_hashable(const Value& key);
/// Returns the value of a key; null if there is none.
const Value* find(const Dict& dict, const Value& key, Budget& budget);
/// Returns the items over which a `for` loop iterates: of a dict its keys, of a text its
/// characters.
std::vector<Value> iterate(const Value& value, Budget& budget);
/// Returns the number of items or characters. Throws InputError for a value without a length.
int64_t length(const Value& value, Budget& budget);
/// Returns the beginning of a name of the template in printable form, for a message.
std::string short_name(std::string_view name);
/// Returns the characters of a text.
std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace attend::jinja
