#pragma once

#include <CLI/App.hpp>

#include <exception>
#include <string>

namespace attend::app {

/// Returns the message of an exception, without names of C++ types and functions.
std::string error_text(const std::exception& error);

/// True if an exception other than a command line error is about wrong input: exit status 2.
bool is_wrong_input(const std::exception& error);

/// Returns the message for a command line error. If a subcommand or flag is unknown, the message
/// suggests the flag with the same meaning or the most similar name.
std::string parse_error_message(const CLI::App& app, const CLI::ParseError& error);

/// Returns the message for an exception that a subcommand of `app` has thrown. The message contains
/// no names of C++ types or source files. If memory ran out, it contains the flags that reduce the
/// memory. Keys of a recipe in backquotes, such as `unknown = replace`, become flags. After a
/// message with other keys of a recipe, it contains the flags of these keys.
std::string error_message(const CLI::App& app, const std::exception& error);

/// Returns the message for a switch with a value, such as --bias=false.
std::string switch_takes_no_value(const std::string& name);

/// Returns `message` with control characters and invalid UTF-8 escaped, except newlines.
std::string without_control_codes(const std::string& message);

}  // namespace attend::app
