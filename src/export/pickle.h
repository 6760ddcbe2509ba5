#pragma once

#include "attend/api.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Parser of the pickles that LibTorch writes. Nothing is executed: calls and objects are returned
/// as data. Safe for untrusted input.
class ATTEND_API Pickle {
 public:
  using Index = std::size_t;  ///< index of a value

  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,
    global,
    list,
    dict,
    tuple,
    call,
    object,
    storage
  };

  struct Value {
    Kind kind = Kind::none;
    int64_t integer = 0;         ///< value of a boolean or integer
    std::string_view text = {};  ///< content of a text; "module\nname" of a global
    /// Items of a tuple; keys and values of a dict, alternating; function and argument tuple of a
    /// call; class and state of an object; the tuple that describes a storage. The items of a list
    /// are omitted.
    std::vector<Index> items = {};
  };

  /// Parses `bytes`, which must outlive this object. Throws InputError if `bytes` is not a valid
  /// pickle of protocol 2, or contains an opcode that LibTorch does not write.
  explicit Pickle(std::string_view bytes);

  const Value& root() const { return values_[root_]; }
  const Value& operator[](Index index) const { return values_[index]; }

 private:
  class Parser;
  std::vector<Value> values_;
  Index root_ = 0;
};

}  // namespace attend
