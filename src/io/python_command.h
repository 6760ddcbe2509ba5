#pragma once

#include "attend/api.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace attend {

/// Returns a command line that runs Python code, in which the arguments are sys.argv[1] and so on,
/// so that neither the shell nor Python interprets them. `code` contains no characters that are
/// special in double quotes.
///
///     python_command("import sys; print(sys.argv[1])", {"a b"});
///     // python3 -c "import sys; print(sys.argv[1])" 'a b'
ATTEND_API std::string python_command(std::string_view code,
                                      std::initializer_list<std::string> arguments);

}  // namespace attend
