#include "error_message.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/train/nearest_name.h"
#include "recipes/recipe_flags.h"
#include "terminal/help_formatter.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>
#include <new>
#include <sstream>
#include <system_error>

namespace attend::app {
namespace {

/// Returns the chosen subcommand; null if there is none.
const CLI::App* chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : chosen.front();
}

/// Returns the text before `separator` in the message of CLI11, which is the name of an option.
std::string name_before(const std::string& text, std::string_view separator) {
  return text.substr(0, text.find(separator));
}

/// Returns the sentence for a message of CLI11 about an option of `command`.
std::string sentence_of(const CLI::App& command, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const auto name = name_before(text, " is required");
    const auto* option = command.get_option_no_throw(name);
    if (option == nullptr) return text;
    return fmt::format("{}: missing {} {}: {}; see attend {} --help", command.get_name(), name,
                       option->get_type_name(), option->get_description(), command.get_name());
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const auto name = name_before(text, ":");
    const auto* option = command.get_option_no_throw(name);
    if (text.find("At Most 1") != std::string::npos) {
      const auto opposite = "no-" + name.substr(std::min(name.find_first_not_of('-'), name.size()));
      const bool has_opposite = option != nullptr && option->check_lname(opposite);
      return fmt::format("{}: given more than once",
                         has_opposite ? fmt::format("{} or --{}", name, opposite) : name);
    }
    if (text.ends_with(" missing")) {
      return fmt::format("{}: expected a value{}, found none", name,
                         option == nullptr ? "" : " " + option->get_type_name());
    }
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    constexpr std::string_view kExcludes = " excludes ";
    const auto name = name_before(text, kExcludes);
    return fmt::format("found {} and {}, expected one of them: remove the other from the command",
                       name, text.substr(name.size() + kExcludes.size()));
  }
  constexpr std::string_view kFlagValue = " was given a disallowed flag override";
  if (text.ends_with(kFlagValue)) {
    const auto name = name_before(text, kFlagValue);
    return switch_takes_no_value(name.starts_with("no-") ? name.substr(3) : name);
  }
  return text;
}

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

/// True if `message` contains `key` as a word. A key with its table, such as model.num_layers, and
/// a key in quotes, which is unknown, do not count: they are about a recipe file. Nor does a key
/// with its value, such as num_layers=2: it is the name of a run of a sweep, or was typed.
bool names_key(const std::string& message, const std::string& key) {
  for (auto at = message.find(key); at != std::string::npos; at = message.find(key, at + 1)) {
    const auto end = at + key.size();
    const bool ends = end == message.size() ||
                      (!is_word_character(message[end]) && message[end] != '=') ||
                      (message[end] == '.' && end + 1 == message.size());
    const bool begins = at == 0 || (!is_word_character(message[at - 1]) && message[at - 1] != '\'');
    if (begins && ends) return true;
  }
  return false;
}

/// Returns "; did you mean '--FLAG'?" with the flag of `command` that `unknown` probably means;
/// empty if there is none.
std::string suggest_flag(const std::string& unknown, const CLI::App& command) {
  std::vector<std::string> flags;
  for (const auto* option : command.get_options()) {
    for (const auto& flag : flags_of(*option)) {
      if (flag.starts_with("--")) flags.push_back(flag);
    }
  }
  return train::did_you_mean(unknown, flags);
}

/// Replaces keys of a recipe in backquotes by flags: `unknown = replace` becomes --unknown replace,
/// a flag of `train`. A key without a value, such as `text`, becomes a flag if it is one of
/// `command`, which may be null.
std::string with_flags(const std::string& message, const CLI::App* train, const CLI::App* command) {
  std::string text;
  std::size_t rest = 0;
  for (auto begin = message.find('`'); begin != std::string::npos;
       begin = message.find('`', rest)) {
    const auto end = message.find('`', begin + 1);
    if (end == std::string::npos) break;
    const auto quoted = message.substr(begin + 1, end - begin - 1);
    const auto equals = quoted.find(" = ");
    const auto* owner = equals == std::string::npos ? command : train;
    const auto flag = flag_of(quoted.substr(0, equals));
    text += message.substr(rest, begin - rest);
    if (owner == nullptr || owner->get_option_no_throw(flag) == nullptr) {
      text += "`" + quoted + "`";
    } else {
      text += equals == std::string::npos ? flag : flag + " " + quoted.substr(equals + 3);
    }
    rest = end + 1;
  }
  return text + message.substr(rest);
}

/// Returns " (flag --max-steps)" for a message with the key max_steps, or " (flag --epochs)" if
/// --epochs was given instead; empty if the message has no key of a recipe that is a flag of
/// `command`. Keys that are also English words, such as length,
/// count only if their flag was given and the message has no other flag.
std::string flags_in(const std::string& message, const CLI::App& command) {
  std::vector<std::string> flags;
  const auto* epochs = command.get_option_no_throw("--epochs");
  const bool has_epochs = epochs != nullptr && epochs->count() > 0;
  for (const auto& field : train::recipe_fields()) {
    const std::string key = field.key;
    const std::string flag = key == "max_steps" && has_epochs ? "--epochs" : flag_of(key);
    const auto* option = command.get_option_no_throw(flag);
    if (option == nullptr || message.find(flag) != std::string::npos) continue;
    const bool is_clear = key.find('_') != std::string::npos ||
                          (option->count() > 0 && message.find("--") == std::string::npos);
    if (is_clear && names_key(message, key)) flags.push_back(flag);
  }
  if (flags.empty()) return "";
  return fmt::format(" (flag{} {})", flags.size() > 1 ? "s" : "", fmt::join(flags, ", "));
}

/// Removes each part of a message that begins with `start` and ends with "] ".
std::string without_brackets(std::string message, std::string_view start) {
  constexpr std::string_view kEnd = "] ";
  for (auto at = message.find(start); at != std::string::npos; at = message.find(start, at)) {
    const auto last = message.find(kEnd, at);
    if (last == std::string::npos) break;
    message.erase(at, last + kEnd.size() - at);
  }
  return message;
}

/// Returns the amount in the message of a memory allocator, such as "4000 bytes" or "2.00 GiB".
std::string requested_memory(const std::string& message) {
  constexpr std::string_view kBefore = "ried to allocate ";
  const auto at = message.find(kBefore);
  if (at == std::string::npos) return "";
  const auto amount = message.substr(at + kBefore.size());
  return " for " + amount.substr(0, amount.find(". "));
}

std::string out_of_memory(const CLI::App* command, const std::string& message) {
  const std::map<std::string, std::string> settings{
      {"train", "--batch-size, --max-seq-len, --embed-dim or --num-layers"},
      {"lr-find", "--batch-size, --max-seq-len, --embed-dim or --num-layers"},
      {"generate", "--max-new-tokens or --num-beams, or pass a shorter prompt"}};
  const auto found = settings.find(command == nullptr ? "" : command->get_name());
  return fmt::format("not enough memory{}: {}", requested_memory(message),
                     found == settings.end() ? "free memory, or use a machine with more memory"
                                             : fmt::format("lower {}", found->second));
}

}  // namespace

std::string error_text(const std::exception& error) {
  if (const auto* failed = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return fmt::format("{}: {}", failed->path1().string(), failed->code().message());
  // fmt::print throws this error; its message does not name the file.
  if (dynamic_cast<const std::system_error*>(&error) != nullptr && std::ferror(stdout) != 0)
    return "standard output cannot be written";
  if (const auto* failed = dynamic_cast<const c10::Error*>(&error))
    return failed->what_without_backtrace();
  if (dynamic_cast<const nlohmann::json::exception*>(&error) != nullptr)
    return without_brackets(error.what(), "[json.exception.");  // name and number of the exception
  return error.what();
}

bool is_wrong_input(const std::exception& error) {
  return dynamic_cast<const InputError*>(&error) != nullptr ||
         dynamic_cast<const c10::ValueError*>(&error) != nullptr;
}

std::string switch_takes_no_value(const std::string& name) {
  return fmt::format("--{0} takes no value; use --{0} or --no-{0}", name);
}

std::string parse_error_message(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<std::string> commands;
  for (const auto* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const auto* chosen = chosen_command(app);
  const auto unexpected = app.remaining(/*recurse=*/true);
  if (chosen == nullptr && unexpected.empty()) {
    return fmt::format("missing subcommand: expected one of {}", fmt::join(commands, ", "));
  }
  if (chosen == nullptr) {
    return fmt::format("unknown subcommand '{}'{}", unexpected[0],
                       train::did_you_mean(unexpected[0], commands));
  }
  // CLI11 checks for missing arguments before it checks for unknown ones.
  if (unexpected.empty()) return sentence_of(*chosen, error);
  std::error_code missing;
  if (chosen->get_option_no_throw("--val-text") != nullptr &&
      std::filesystem::is_regular_file(unexpected[0], missing)) {
    return fmt::format(
        "{}: unknown argument '{}'; to pass several files, repeat --text, or pass a "
        "pattern in quotes: --text 'DIR/*.txt'",
        chosen->get_name(), unexpected[0]);
  }
  const auto unknown = unexpected[0].substr(0, unexpected[0].find('='));
  return fmt::format("{}: unknown argument '{}'{}", chosen->get_name(), unexpected[0],
                     suggest_flag(unknown, *chosen));
}

std::string error_message(const CLI::App& app, const std::exception& error) {
  const auto* command = chosen_command(app);
  auto message = error_text(error);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      message.find("ried to allocate ") != std::string::npos) {
    return out_of_memory(command, message);
  }
  message = without_brackets(message, "[enforce fail at ");  // the place in LibTorch
  message = with_flags(message, app.get_subcommand("train"), command);
  if (message.starts_with(". ")) message.erase(0, 2);  // the condition of an enforce may be empty
  return command == nullptr ? message : message + flags_in(message, *command);
}

std::string without_control_codes(const std::string& message) {
  std::vector<std::string> lines;
  std::istringstream rest(message);
  for (std::string line; std::getline(rest, line);) lines.push_back(printable(line));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace attend::app
