#pragma once

#include <cstddef>
#include <string>

namespace attend::app {

/// Opens /dev/null in place of standard streams that are closed: otherwise the next file opened
/// takes their number, and gets what is printed.
void open_closed_streams();

/// From now on writing to a pipe that nobody reads, or beyond the size that files may have, fails,
/// as writing to a full disk does, and does not end the program.
void outlive_failed_writes();

/// Whether standard input is a person at a terminal.
bool input_is_terminal();

/// Writes to standard error; if that fails nobody can be told, and work goes on.
void write_error(const std::string& text);

/// Writes to standard output at once. Throws std::runtime_error if that fails.
void print_now(const std::string& text);

/// Whether all that was printed to standard output arrived.
bool flush_output();

/// Whether standard error is a terminal on which a line can be rewritten.
bool error_is_terminal();

/// How many columns the terminal of a stream (STDOUT_FILENO, STDERR_FILENO) has: as it says itself,
/// else the environment variable COLUMNS, else 80.
int terminal_width(int stream);

/// Whether the environment variable NO_COLOR is empty or missing; see no-color.org.
bool colours_are_welcome();

}  // namespace attend::app
