#include "tokenizers/jinja/builtins.h"

#include "attend/input_error.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::jinja {

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  for (const auto& [keyword, value] : keywords) {
    if (keyword == name) return &value;
  }
  return nullptr;
}

Value Arguments::get(std::size_t position, std::string_view name, const Value& missing) const {
  const auto* found = find(position, name);
  return found == nullptr ? missing : *found;
}

void Arguments::check(std::size_t min, const std::vector<std::string_view>& names) const {
  if (values.size() > names.size()) {
    throw InputError(
        fmt::format("expected at most {} arguments, found {}", names.size(), values.size()));
  }
  for (const auto& [keyword, value] : keywords) {
    const auto found = std::find(names.begin(), names.end(), keyword);
    if (found == names.end()) throw InputError(fmt::format("unknown argument '{}'", keyword));
    if (static_cast<std::size_t>(found - names.begin()) < values.size())
      throw InputError(fmt::format("the argument '{}' is given twice", keyword));
  }
  for (std::size_t i = 0; i < min; ++i) {
    if (find(i, names[i]) != nullptr) continue;
    throw InputError(names[i].empty() ? fmt::format("the argument {} is missing", i + 1)
                                      : fmt::format("the argument '{}' is missing", names[i]));
  }
}

}  // namespace attend::jinja
