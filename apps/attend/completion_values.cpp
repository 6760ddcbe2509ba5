#include "completion_values.h"

#include "explain/examples.h"
#include "recipe_folder.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace attend::app {

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

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string quoted(const std::string& text, const std::string& quote_in_quotes) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += quote_in_quotes;
    else
      result += c;
  }
  return result + "'";
}

}  // namespace attend::app
