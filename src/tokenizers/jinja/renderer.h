#pragma once

#include "tokenizers/jinja/syntax.h"

#include <cstddef>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace attend::jinja {

struct Rendered {
  std::string text;
  /// First byte of each `{% generation %}` block and the byte after its last.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

/// Renders a template. Throws InputError that names the line. `name`: of the template, for
/// messages. `now`: local time for `strftime_now`.
Rendered render(const Body& body, const std::string& name,
                const std::map<std::string, Value>& variables, const std::tm& now);

}  // namespace attend::jinja
