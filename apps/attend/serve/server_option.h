#pragma once

#include "options.h"
#include "serve/page_server.h"

#include <CLI/App.hpp>
#include <fmt/format.h>

#include <string>

namespace attend::app {

/// Parses the number of a port. Throws CLI::ValidationError with `flag` and `text` for another
/// text.
inline int parse_port(const std::string& flag, const std::string& text) {
  const auto port = parse_number<int>(flag, text);
  if (port >= 0 && port <= 65535) return port;
  throw CLI::ValidationError(flag, fmt::format("must be between 0 and 65535, found {}", text));
}

/// Adds --host. Parsing writes it to `host`, whose value is the default.
inline CLI::Option* add_host(CLI::App& command, std::string& host) {
  return command
      .add_option("--host", host,
                  "address at which the page is served; everyone who can reach the address can "
                  "read the run")
      ->type_name("ADDRESS")
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; })
      ->capture_default_str();
}

}  // namespace attend::app
