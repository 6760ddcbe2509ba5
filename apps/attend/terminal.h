#pragma once

#include <cstddef>
#include <string>

namespace attend::app {

/// Opens /dev/null in place of standard streams that are closed: otherwise the next file opened
/// takes their number, and gets what is printed.
void open_closed_streams();

/// Writes to standard error; if that fails nobody can be told, and work goes on.
void write_error(const std::string& text);

/// Whether all that was printed to standard output arrived.
bool flush_output();

/// The width of lines on standard output: that of COLUMNS, if set, else of the terminal, else 80.
/// Never so small that nothing can be laid out.
std::size_t terminal_width();

}  // namespace attend::app
