#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>

#include <string>
#include <vector>

namespace attend::app {

/// The help of the command: options in groups, each with its unit and its default in brackets,
/// wrapped to the width of the terminal.
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

/// The flags of an option, as they are typed: "-o", "--out".
std::vector<std::string> flags_of(const CLI::Option& option);

/// Words in lines of at most `width` characters, the second and later ones indented by `indent`.
/// A word that is longer than a line has one to itself.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent);

}  // namespace attend::app
