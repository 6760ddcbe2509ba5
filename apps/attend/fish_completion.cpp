#include "completion.h"
#include "completion_values.h"
#include "help_formatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attend::app {
namespace {

std::string fish_quoted(const std::string& text) {
  return quoted(text, "\\'");
}

/// The options of `complete` for a value: -a 'layer rms', -F for files.
std::string value_of(const CLI::Option& option) {
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
std::string line_of(const CLI::Option& option, const std::string& condition) {
  std::string names;
  for (const auto& name : option.get_snames()) names += " -s " + name;
  for (const auto& name : option.get_lnames()) names += " -l " + name;
  const bool has_value = option.get_items_expected_max() > 0;
  // -x: requires a value, offers no files; -r: requires a value.
  if (has_value && !names.empty())
    names += value_of(option).find(" -F") == std::string::npos ? " -x" : " -r";
  const auto value = has_value ? value_of(option) : "";
  if (names.empty() && value.empty()) return "";
  return fmt::format("complete -c attend -n {}{}{} -d {}\n", fish_quoted(condition), names, value,
                     fish_quoted(option.get_description()));
}

std::string lines_of(const CLI::App& command, const std::string& condition) {
  std::string lines;
  for (const auto* option : command.get_options()) lines += line_of(*option, condition);
  return lines;
}

}  // namespace

std::string fish_completion(const CLI::App& app) {
  const std::string no_subcommand = "__fish_use_subcommand";
  auto text = fmt::format(
                  "# fish completion for {0}: {0} completion fish | source\n\n"
                  "complete -c {0} -f\n",
                  app.get_name()) +
              lines_of(app, no_subcommand);
  for (const auto* command : subcommands_of(app)) {
    text += fmt::format("complete -c attend -n {} -a {} -d {}\n", no_subcommand,
                        command->get_name(), fish_quoted(command->get_description()));
    text += lines_of(*command, "__fish_seen_subcommand_from " + command->get_name());
  }
  return text;
}

}  // namespace attend::app
