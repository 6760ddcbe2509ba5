#include "completion.h"
#include "completion_values.h"
#include "help_formatter.h"
#include "recipe_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::app {
namespace {

/// Returns `text` with a backslash before the characters that have a meaning in a specification of
/// `_arguments`.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_quoted(const std::string& text) {
  return quoted(text, "'\\''");
}

/// The action of `_arguments` that completes a value. An action of a space completes nothing.
std::string action_of(const CLI::Option& option) {
  const auto [paths, words] = value_completion(option);
  if (paths == ValueCompletion::Paths::directories) return "_files -/";
  if (paths == ValueCompletion::Paths::files) return words.empty() ? "_files" : "_attend_recipes";
  return words.empty() ? " " : fmt::format("({})", fmt::join(words, " "));
}

/// The specifications of an option or argument for `_arguments`. `position` counts the arguments.
std::string specifications_of(const CLI::Option& option, int& position) {
  const auto type = option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
  const auto value = option.get_items_expected_max() > 0
                         ? fmt::format(":{}:{}", escaped(type), action_of(option))
                         : std::string();
  if (option.get_positional()) {
    const auto place = option.get_items_expected_max() > 1 ? "*" : std::to_string(position++);
    return fmt::format(" \\\n    {}", zsh_quoted(place + value));
  }
  std::string text;
  for (const auto& flag : flags_of(option)) {
    // --flag=value is an alternative to --flag value; a repeated flag has a *.
    const auto* equals = value.empty() || !flag.starts_with("--") ? "" : "=";
    text += fmt::format(" \\\n    {}",
                        zsh_quoted(fmt::format("{}{}[{}]{}", flag, equals,
                                               escaped(option.get_description()), value)));
  }
  return text;
}

std::string arguments_of(const CLI::App& command) {
  std::string text = "_arguments -s";
  int position = 1;
  for (const auto* option : command.get_options()) text += specifications_of(*option, position);
  return text;
}

}  // namespace

std::string zsh_completion(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const auto* command : subcommands_of(app)) {
    names += fmt::format("    {}\n", zsh_quoted(fmt::format("{}:{}", command->get_name(),
                                                            command->get_description())));
    cases += fmt::format("  {})\n    {}\n    ;;\n", command->get_name(), arguments_of(*command));
  }
  return fmt::format(
      "#compdef {0}\n"
      "# zsh completion for {0}: source <({0} completion zsh), after compinit\n\n"
      "_attend_commands() {{\n  local -a commands=(\n{1}  )\n"
      "  _describe -t commands command commands\n}}\n\n"
      "_attend_recipes() {{\n  compadd -- {4}\n  _files\n}}\n\n"
      "_attend() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      "  {2} \\\n    '1: :_attend_commands' '*::argument:->arguments' && return\n"
      "  [[ $state == arguments ]] || return\n"
      "  local command=$words[1]\n  curcontext=\"${{curcontext%:*}}-$command:\"\n"
      "  case $command in\n{3}  esac\n}}\n\n"
      "# The file is a function if zsh loads it from $fpath, else a script.\n"
      "if [[ $funcstack[1] == _attend ]]; then\n  _attend \"$@\"\nelse\n  compdef _attend "
      "{0}\nfi\n",
      app.get_name(), names, arguments_of(app), cases, fmt::join(names_of_shipped_recipes(), " "));
}

}  // namespace attend::app
