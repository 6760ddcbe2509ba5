#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace attend::app {

/// Moves the cursor of a terminal to the begin of its line and erases the line.
inline constexpr const char* kEraseLine = "\r\x1b[K";

/// Ends the color of text.
inline constexpr const char* kResetColor = "\x1b[0m";

/// Time between lines about progress if standard error is not a terminal.
inline constexpr std::chrono::seconds kBetweenLines{30};

/// Opens /dev/null for each closed standard stream. Otherwise, the next file that is opened would
/// get the descriptor of the stream, and output to the stream would be written to the file.
/// Standard output is opened for reading only, so that writing to it fails: the output is lost.
void open_closed_streams();

/// Ignores SIGPIPE and SIGXFSZ. A write to a closed pipe or beyond the file size limit then returns
/// an error instead of ending the program.
void ignore_write_signals();

/// Returns true if standard input is a terminal.
bool input_is_terminal();

/// Writes to standard error; failures are ignored.
void write_error(const std::string& text);

/// Writes to standard output and flushes it. Throws std::runtime_error on failure.
void print_now(const std::string& text);

/// Does the same with a text that a model has written. On a terminal, which it must not control, it
/// is escaped by `printable`, except for line breaks and tabs.
void print_text_now(const std::string& text);

/// Flushes standard output; returns false if anything could not be written.
bool flush_output();

/// Returns true if standard output is a pipe and no process can read from it.
bool output_pipe_is_closed();

/// Returns true if standard error is a terminal that can rewrite a line: TERM is set and is not
/// "dumb".
bool error_is_terminal();

/// Returns true if standard output is such a terminal.
bool output_is_terminal();

/// Returns the number of columns of the terminal of `stream` (STDOUT_FILENO or STDERR_FILENO). If
/// the number is unknown, for example because the stream is a pipe, returns $COLUMNS, else 80.
int terminal_width(int stream);

/// Returns the number of lines of the terminal of standard output; 0 if it is unknown.
int terminal_height();

/// Returns true if the environment variable NO_COLOR is unset or empty; see no-color.org.
bool colors_enabled();

/// Returns true if text on standard output may have the 16 colors of a terminal: it is a terminal
/// that can rewrite a line, and `colors_enabled`.
bool output_has_colors();

/// Returns true if `output_has_colors`, and TERM or COLORTERM says that the terminal has 256
/// colors.
bool output_has_256_colors();

/// Returns true if the character encoding of the locale (LC_ALL, LC_CTYPE or LANG) is UTF-8.
bool locale_is_utf8();

/// Shows a text on the terminal with the program in the environment variable PAGER, by default
/// less. Sets the variable LESS if it is unset, so that less shows colors and its keys, and ends at
/// once if the text fits on the screen. Prints the text to standard output if PAGER is empty, or if
/// there is no such program.
void show_in_pager(const std::string& text);

}  // namespace attend::app
