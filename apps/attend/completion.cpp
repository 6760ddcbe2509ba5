#include "completion.h"

#include "explain/examples.h"
#include "recipes/recipe_files.h"
#include "terminal/help_formatter.h"
#include "terminal/shell_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

namespace attend::app {
namespace {

/// Completions of the value of an option or argument.
struct ValueCompletion {
  enum class Paths { none, files, directories };

  Paths paths = Paths::none;
  std::vector<std::string> words = {};
};

/// Returns the completions for the type name of an option: devices for DEVICE, directories for DIR,
/// files for FILE and PATH, files and recipe names for `kRecipeType`, directories and examples for
/// `kSubjectType`, and the names `layer` and `rms` for a type name such as "layer|rms". Numbers and
/// free text have no completions.
ValueCompletion value_completion(const CLI::Option& option) {
  using Paths = ValueCompletion::Paths;
  const auto type = option.get_type_name();
  if (type == "DEVICE") return {.words = {"auto", "cpu", "cuda"}};
  if (type == "DIR") return {.paths = Paths::directories};
  if (type == "FILE" || type == "PATH") return {.paths = Paths::files};
  if (type == kRecipeType) return {.paths = Paths::files, .words = names_of_shipped_recipes()};
  ValueCompletion completion;
  if (type == kSubjectType) {
    completion.paths = Paths::directories;
    for (const auto& example : explain_examples()) completion.words.emplace_back(example.name);
    return completion;
  }
  if (std::none_of(type.begin(), type.end(), [](unsigned char c) { return std::islower(c); }))
    return completion;  // such as INT
  std::istringstream rest(type);
  for (std::string value; std::getline(rest, value, '|');) completion.words.push_back(value);
  return completion;
}

/// Returns all subcommands of `app`, in the order of the help.
std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The part of the script that is the same for every `CLI::App`. Calls the generated functions
/// `_attend_value` and `_attend_words`.
constexpr const char* kBashScript = R"bash(_attend_complete() {
  mapfile -t COMPREPLY < <(compgen "${@:2}" -- "$1")
}

_attend_complete_paths() {
  compopt -o filenames 2>/dev/null
  _attend_complete "$@"
}

_attend() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word
  COMPREPLY=()
  # Bash splits --flag=value into three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $(_attend_words '') " == *" $word "* && $word != -* ]]; then
      command=$word
      break
    fi
  done
  _attend_value "$current" "$command $previous" && return
  if [[ -z $command || $current == -* ]]; then
    _attend_complete "$current" -W "$(_attend_words "$command")"
  else
    _attend_value "$current" "$command"
  fi
}

complete -F _attend attend
)bash";

/// The bash command that completes the value of an option.
std::string bash_completer(const CLI::Option& option) {
  const auto [paths, words] = value_completion(option);
  if (paths == ValueCompletion::Paths::directories) return "_attend_complete_paths \"$1\" -d";
  const auto list = words.empty() ? "" : fmt::format(" -W '{}'", fmt::join(words, " "));
  if (paths == ValueCompletion::Paths::files) return "_attend_complete_paths \"$1\" -f" + list;
  return list.empty() ? ":" : "_attend_complete \"$1\"" + list;
}

std::vector<std::string> all_flags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    for (const auto& flag : flags_of(*option)) flags.push_back(flag);
  }
  return flags;
}

/// A branch of the case statement in `_attend_words`. The branch prints `words` for `command`:
/// `'train') echo '--task --text ...' ;;`.
std::string bash_words_case(const std::string& command, const std::vector<std::string>& words) {
  return fmt::format("    '{}') echo '{}' ;;\n", command, fmt::join(words, " "));
}

/// Branches of the case statement in `_attend_value`. They complete the positional argument of
/// `command` and the values of its flags.
std::string bash_value_cases(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag without a value
    std::vector<std::string> patterns;
    for (const auto& flag : flags_of(*option)) {
      patterns.push_back(fmt::format("'{} {}'", command.get_name(), flag));
    }
    if (option->get_positional()) patterns.push_back(fmt::format("'{}'", command.get_name()));
    text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), bash_completer(*option));
  }
  return text;
}

/// Returns `text` with a backslash before the characters that have a meaning in a specification of
/// `_arguments`.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_quoted(const std::string& text) {
  return shell_quoted(text);
}

/// The action of `_arguments` that completes a value. An action of a space completes nothing.
std::string zsh_action(const CLI::Option& option) {
  const auto [paths, words] = value_completion(option);
  if (paths == ValueCompletion::Paths::directories) return "_files -/";
  if (paths == ValueCompletion::Paths::files) return words.empty() ? "_files" : "_attend_recipes";
  return words.empty() ? " " : fmt::format("({})", fmt::join(words, " "));
}

/// The specifications of an option or argument for `_arguments`. `position` counts the arguments.
std::string zsh_specifications(const CLI::Option& option, int& position) {
  const auto type = option.get_type_name().empty() ? option.get_name(true) : option.get_type_name();
  const auto value = option.get_items_expected_max() > 0
                         ? fmt::format(":{}:{}", zsh_escaped(type), zsh_action(option))
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
                                               zsh_escaped(option.get_description()), value)));
  }
  return text;
}

std::string zsh_arguments(const CLI::App& command) {
  std::string text = "_arguments -s";
  int position = 1;
  for (const auto* option : command.get_options()) text += zsh_specifications(*option, position);
  return text;
}

std::string fish_quoted(const std::string& text) {
  return shell_quoted(text, "\\'");
}

/// The options of `complete` for a value: -a 'layer rms', -F for files.
std::string fish_value(const CLI::Option& option) {
  const auto [paths, words] = value_completion(option);
  std::string text;
  if (paths == ValueCompletion::Paths::files) text += " -F";
  if (paths == ValueCompletion::Paths::directories) text += " -a '(__fish_complete_directories)'";
  if (!words.empty())
    text += fmt::format(" -a {}", fish_quoted(fmt::format("{}", fmt::join(words, " "))));
  return text;
}

/// The line for an option or argument of a subcommand, or for a flag of the command itself.
/// `condition` is the fish condition under which it is offered.
std::string fish_line(const CLI::Option& option, const std::string& condition) {
  std::string names;
  for (const auto& name : option.get_snames()) names += " -s " + name;
  for (const auto& name : option.get_lnames()) names += " -l " + name;
  const bool has_value = option.get_items_expected_max() > 0;
  // -x: requires a value, offers no files; -r: requires a value.
  if (has_value && !names.empty())
    names += fish_value(option).find(" -F") == std::string::npos ? " -x" : " -r";
  const auto value = has_value ? fish_value(option) : "";
  if (names.empty() && value.empty()) return "";
  return fmt::format("complete -c attend -n {}{}{} -d {}\n", fish_quoted(condition), names, value,
                     fish_quoted(option.get_description()));
}

std::string fish_lines(const CLI::App& command, const std::string& condition) {
  std::string lines;
  for (const auto* option : command.get_options()) lines += fish_line(*option, condition);
  return lines;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  auto first_words = all_flags(app);
  std::string words;
  std::string values;
  for (const auto* command : subcommands_of(app)) {
    first_words.push_back(command->get_name());
    words += bash_words_case(command->get_name(), all_flags(*command));
    values += bash_value_cases(*command);
  }
  return fmt::format(
      "# bash completion for {0}: source <({0} completion bash)\n\n"
      "# Prints the flags of the subcommand $1. If $1 is empty, prints the flags of {0} itself\n"
      "# and the names of the subcommands.\n"
      "_attend_words() {{\n  case $1 in\n{1}{2}  esac\n}}\n\n"
      "# Completes $1. If $2 is 'COMMAND FLAG', $1 is the value of the flag. If $2 is 'COMMAND',\n"
      "# $1 is the argument of the command. Fails if the flag takes no value or the command takes\n"
      "# no argument.\n"
      "_attend_value() {{\n  case $2 in\n{3}    *) return 1 ;;\n  esac\n  return 0\n}}\n\n{4}",
      app.get_name(), bash_words_case("", first_words), words, values, kBashScript);
}

std::string fish_completion(const CLI::App& app) {
  const std::string no_subcommand = "__fish_use_subcommand";
  auto text = fmt::format(
                  "# fish completion for {0}: {0} completion fish | source\n\n"
                  "complete -c {0} -f\n",
                  app.get_name()) +
              fish_lines(app, no_subcommand);
  for (const auto* command : subcommands_of(app)) {
    text += fmt::format("complete -c attend -n {} -a {} -d {}\n", no_subcommand,
                        command->get_name(), fish_quoted(command->get_description()));
    text += fish_lines(*command, "__fish_seen_subcommand_from " + command->get_name());
  }
  return text;
}

std::string zsh_completion(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const auto* command : subcommands_of(app)) {
    names += fmt::format("    {}\n", zsh_quoted(fmt::format("{}:{}", command->get_name(),
                                                            command->get_description())));
    cases += fmt::format("  {})\n    {}\n    ;;\n", command->get_name(), zsh_arguments(*command));
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
      app.get_name(), names, zsh_arguments(app), cases, fmt::join(names_of_shipped_recipes(), " "));
}

}  // namespace attend::app
