#include "tokenizers/fields.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "tokenizers/characters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::tokenizers {

void throw_unknown_type(const JsonFields& fields, const std::string& found,
                        const std::vector<std::string_view>& expected) {
  throw InputError(fmt::format("`{}`: found '{}', which is not supported, expected one of {}",
                               fields.path_of("type"), printable(found.substr(0, 80)),
                               fmt::join(expected, ", ")));
}

void check_growth(std::string_view key, std::size_t original_size, std::size_t size,
                  std::string_view unit) {
  constexpr std::size_t kFactor = 64;
  constexpr std::size_t kFixedSize = std::size_t{1} << 20;
  const auto most = kFactor * original_size + kFixedSize;
  if (size <= most) return;
  throw InputError(fmt::format("`{}`: a text of {} {} became {} {}, expected at most {}", key,
                               original_size, unit, size, unit, most));
}

std::string one_character(JsonFields& fields, const std::string& key) {
  auto text = fields.string(key);
  if (count_characters(text) != 1) fields.throw_unexpected(key, "one character");
  return text;
}

}  // namespace attend::tokenizers
