#include "terminal/help_formatter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace attend::app {
namespace {

constexpr std::size_t kNameWidth = 30;  ///< width of the column of names, including kIndent
constexpr std::size_t kIndent = 2;

/// Returns the sort key of an option group: the index of the name in kOrder that is a prefix of
/// `group` ("Model" is a prefix of "Model, size"). Groups without such a name come last.
std::size_t rank_of_group(const std::string& group) {
  constexpr std::array<std::string_view, 9> kOrder{
      "Prompt", "Sampling", "Search", "Task", "Data", "Model", "Fine-tuning", "Training", "Output"};
  const auto* found = std::find_if(kOrder.begin(), kOrder.end(),
                                   [&](const auto& name) { return group.starts_with(name); });
  return static_cast<std::size_t>(found - kOrder.begin());
}

std::string describe(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += fmt::format(" [{}]", option.get_default_str());
  if (option.get_required()) text += " (required)";
  return text;
}

}  // namespace

std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const auto& name : option.get_snames()) flags.push_back("-" + name);
  for (const auto& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::istringstream words(text);
  std::string wrapped;
  std::size_t used = 0;
  for (std::string word; words >> word;) {
    if (used > 0 && used + 1 + word.size() > width) {
      wrapped += "\n" + std::string(indent, ' ');
      used = 0;
    }
    if (used > 0) word = " " + word;
    wrapped += word;
    used += word.size();
  }
  return wrapped;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
         groups_of(app) + make_subcommands(app, mode) + "\n" + make_footer(app);
}

std::string HelpFormatter::groups_of(const CLI::App* app) const {
  auto groups = app->get_groups();
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return rank_of_group(a) < rank_of_group(b);
  });
  std::string text;
  for (const auto& group : groups) {
    const auto options = app->get_options([&](const CLI::Option* option) {
      return option->get_group() == group && option->nonpositional();
    });
    if (!group.empty() && !options.empty()) text += make_group(group, false, options);
  }
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  auto name = is_positional ? option->get_name(/*positional=*/true)
                            : fmt::format("{}", fmt::join(flags_of(*option), ", "));
  if (!option->get_type_name().empty()) name += " " + option->get_type_name();
  return entry(name, describe(*option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::entry(const std::string& name, const std::string& description) const {
  auto column = std::string(kIndent, ' ') + name;
  const bool fits = column.size() + 2 <= kNameWidth;
  column +=
      fits ? std::string(kNameWidth - column.size(), ' ') : "\n" + std::string(kNameWidth, ' ');
  return column + wrap(description, width_ - kNameWidth, kNameWidth) + "\n";
}

}  // namespace attend::app
