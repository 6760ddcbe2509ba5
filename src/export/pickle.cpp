#include "export/pickle.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

namespace attend {

class Pickle::Parser {
 public:
  Parser(std::string_view bytes, std::vector<Value>& values) : bytes_(bytes), values_(values) {}

  Index parse() {
    none_ = add({.kind = Kind::none});
    empty_tuple_ = add({.kind = Kind::tuple});
    for (const Index value : {0, 1}) {
      booleans_[value] = add({.kind = Kind::boolean, .integer = static_cast<int64_t>(value)});
    }
    for (;;) {
      const auto opcode = take(1)[0];
      if (opcode == '.') return pop();
      step(opcode);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(fmt::format("invalid pickle at byte {}: {}", at_, why));
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("it is truncated");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t number(std::size_t bytes) {
    const auto text = take(bytes);
    uint64_t value = 0;
    for (auto i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    return value;
  }
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("it is truncated");
    const auto text = take(end - at_);
    take(1);
    return text;
  }

  Index add(Value value) {
    values_.push_back(std::move(value));
    return values_.size() - 1;
  }
  void push(Value value) { stack_.push_back(add(std::move(value))); }
  void push_integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }

  /// Throws InputError if the stack contains fewer than `count` values above the last mark.
  void expect_values(std::size_t count) const {
    const auto begin = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - begin < count) fail("a value is missing");
  }
  Index pop() {
    expect_values(1);
    const auto value = stack_.back();
    stack_.pop_back();
    return value;
  }
  std::vector<Index> pop(std::size_t count) {
    expect_values(count);
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }
  std::vector<Index> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    auto items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  Value& top(Kind kind) {
    expect_values(1);
    auto& value = values_[stack_.back()];
    if (value.kind != kind) fail("a value has the wrong type");
    return value;
  }

  void set_items(const std::vector<Index>& items) {
    if (items.size() % 2 != 0) fail("a key has no value");
    auto& all = top(Kind::dict).items;
    all.insert(all.end(), items.begin(), items.end());
  }
  void store(uint64_t index) {
    expect_values(1);
    memo_[index] = stack_.back();
  }
  void load(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(fmt::format("value {} is not defined", index));
    stack_.push_back(found->second);
  }

  void step(char opcode) {
    switch (opcode) {
      case '\x80':  // PROTO
        if (const auto version = number(1); version != 2)
          fail(fmt::format("expected protocol 2, found {}", version));
        return;
      case 'N':
        return stack_.push_back(none_);
      case '\x88':
        return stack_.push_back(booleans_[1]);
      case '\x89':
        return stack_.push_back(booleans_[0]);
      case ')':
        return stack_.push_back(empty_tuple_);
      case 'J':  // BININT
        return push_integer(static_cast<int32_t>(number(4)));
      case 'K':  // BININT1
        return push_integer(static_cast<int64_t>(number(1)));
      case 'M':  // BININT2
        return push_integer(static_cast<int64_t>(number(2)));
      case '\x8a': {  // LONG1: at most 8 bytes, sign-extended
        const auto length = number(1);
        if (length > 8)
          fail(fmt::format("expected an integer of 8 bytes or less, found {} bytes", length));
        const auto unused = static_cast<int>(64 - 8 * length);
        const auto value = number(length);
        return push_integer(length == 0 ? 0 : static_cast<int64_t>(value << unused) >> unused);
      }
      case 'G':  // BINFLOAT
        take(8);
        return push({.kind = Kind::real});
      case 'X':  // BINUNICODE
        return push({.kind = Kind::text, .text = take(number(4))});
      case 'c': {  // GLOBAL: two lines
        const auto begin = at_;
        line();
        line();
        return push({.kind = Kind::global, .text = bytes_.substr(begin, at_ - begin - 1)});
      }
      case ']':
        return push({.kind = Kind::list});
      case '}':
        return push({.kind = Kind::dict});
      case '(':
        return marks_.push_back(stack_.size());
      case 't':
        return push({.kind = Kind::tuple, .items = pop_to_mark()});
      case '\x85':
      case '\x86':
      case '\x87':  // TUPLE1, TUPLE2, TUPLE3
        return push(
            {.kind = Kind::tuple, .items = pop(static_cast<unsigned char>(opcode) - 0x84u)});
      case 'a':  // APPEND
        pop();
        top(Kind::list);
        return;
      case 'e':  // APPENDS
        pop_to_mark();
        top(Kind::list);
        return;
      case 's':  // SETITEM
        return set_items(pop(2));
      case 'u':  // SETITEMS
        return set_items(pop_to_mark());
      case 'R':  // REDUCE
        return push({.kind = Kind::call, .items = pop(2)});
      case '\x81': {  // NEWOBJ; the argument tuple is empty
        const auto type = pop(2).front();
        return push({.kind = Kind::object, .items = {type, none_}});
      }
      case 'b': {  // BUILD
        const auto state = pop();
        top(Kind::object).items[1] = state;
        return;
      }
      case 'Q':  // BINPERSID
        return push({.kind = Kind::storage, .items = pop(1)});
      case 'q':  // BINPUT
        return store(number(1));
      case 'r':  // LONG_BINPUT
        return store(number(4));
      case 'h':  // BINGET
        return load(number(1));
      case 'j':  // LONG_BINGET
        return load(number(4));
      default:
        fail(fmt::format("unknown opcode 0x{:02x}", static_cast<unsigned char>(opcode)));
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::vector<Value>& values_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;  // size of the stack at each mark
  std::unordered_map<uint64_t, Index> memo_;
  Index none_ = 0;
  Index empty_tuple_ = 0;
  Index booleans_[2] = {0, 0};
};

Pickle::Pickle(std::string_view bytes) {
  root_ = Parser(bytes, values_).parse();
}

}  // namespace attend
