#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// Formats help texts. Options are listed in groups. An option is shown with its unit or type, and
/// with its default in brackets. The descriptions of options and subcommands are wrapped at `width`
/// columns. The names and types of options are not wrapped, so their lines may be longer.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string groups_of(const CLI::App* app) const;
  std::string entry(const std::string& name, const std::string& description) const;

  std::size_t width_;
};

/// The names of an option with their dashes: "-o", "--out".
std::vector<std::string> flags_of(const CLI::Option& option);

/// Wraps text to lines of at most `width` characters. All lines but the first are preceded by
/// `indent` additional spaces. A word longer than `width` gets its own line.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace attend::app
