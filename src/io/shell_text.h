#pragma once

#include "attend/api.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Returns `text` in single quotes for a shell. `quote_in_quotes` replaces a single quote.
ATTEND_API std::string shell_quoted(std::string_view text,
                                    std::string_view quote_in_quotes = "'\\''");

/// Returns the arguments of a command line, separated by spaces. Arguments are quoted if a shell
/// would not take them as they are.
ATTEND_API std::string command_text(const std::vector<std::string>& command);

/// Returns a command line that runs Python code, in which the arguments are sys.argv[1] and so on,
/// so that neither the shell nor Python interprets them. `code` contains no characters that are
/// special in double quotes.
///
///     python_command("import sys; print(sys.argv[1])", {"a b"});
///     // python3 -c "import sys; print(sys.argv[1])" 'a b'
ATTEND_API std::string python_command(std::string_view code,
                                      std::initializer_list<std::string> arguments);

}  // namespace attend
