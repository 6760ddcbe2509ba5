#include "completion.h"
#include "completion_values.h"
#include "help_formatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace attend::app {
namespace {

/// The part of the script that is the same for every `CLI::App`. Calls the generated functions
/// `_attend_value` and `_attend_words`.
constexpr const char* kScript = R"bash(_attend_complete() {
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
std::string completer_of(const CLI::Option& option) {
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
std::string words_case(const std::string& command, const std::vector<std::string>& words) {
  return fmt::format("    '{}') echo '{}' ;;\n", command, fmt::join(words, " "));
}

/// Branches of the case statement in `_attend_value`. They complete the positional argument of
/// `command` and the values of its flags.
std::string value_cases(const CLI::App& command) {
  std::string text;
  for (const auto* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag without a value
    std::vector<std::string> patterns;
    for (const auto& flag : flags_of(*option)) {
      patterns.push_back(fmt::format("'{} {}'", command.get_name(), flag));
    }
    if (option->get_positional()) patterns.push_back(fmt::format("'{}'", command.get_name()));
    text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), completer_of(*option));
  }
  return text;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  auto first_words = all_flags(app);
  std::string words;
  std::string values;
  for (const auto* command : subcommands_of(app)) {
    first_words.push_back(command->get_name());
    words += words_case(command->get_name(), all_flags(*command));
    values += value_cases(*command);
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
      app.get_name(), words_case("", first_words), words, values, kScript);
}

}  // namespace attend::app
