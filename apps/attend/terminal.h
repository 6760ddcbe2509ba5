#pragma once

#include <string>

namespace attend::app {

/// Opens /dev/null in place of standard streams that are closed: otherwise the next file opened
/// takes their number, and gets what is printed.
void open_closed_streams();

/// Whether standard input is a person at a terminal.
bool input_is_terminal();

/// Writes to standard error; if that fails nobody can be told, and work goes on.
void write_error(const std::string& text);

/// Writes to standard output at once. Throws std::runtime_error if that fails.
void print_now(const std::string& text);

/// Whether all that was printed to standard output arrived.
bool flush_output();

}  // namespace attend::app
