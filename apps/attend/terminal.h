#pragma once

#include <string>

namespace attend::app {

/// Opens /dev/null in place of standard streams that are closed: otherwise the next file opened
/// takes their number, and gets what is printed.
void open_closed_streams();

/// Writes to standard error; if that fails nobody can be told, and work goes on.
void write_error(const std::string& text);

/// Whether all that was printed to standard output arrived.
bool flush_output();

}  // namespace attend::app
