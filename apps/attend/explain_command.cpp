#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "attend/train/nearest_name.h"
#include "commands.h"
#include "explain/examples.h"
#include "explain/explain_run.h"
#include "explain/explanation_json.h"
#include "explain/explanation_page.h"
#include "explain/explanation_text.h"
#include "json_text.h"
#include "options.h"
#include "runs/run_option.h"
#include "terminal/number_text.h"
#include "terminal/output_file.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

namespace attend::app {
namespace {

struct ExplainArguments {
  std::string subject;  ///< name of an example, or directory of a run
  RunOption run;
  std::string text;                   ///< that the model of a run reads
  std::optional<std::string> answer;  ///< beginning of the answer of a Seq2Seq
  RunQuestion question;
  int64_t step = 0;  ///< 0 = all steps
  bool list = false;
  bool json = false;
  bool no_pager = false;
  std::string html;  ///< file to write; empty = none
  bool overwrite = false;
};

/// Throws InputError for options that only the explanation of a run has.
void check_example_options(const CLI::App& command, const std::string& name) {
  for (const auto* flag :
       {"--text", "--answer", "--layer", "--head", "--mask", "--no-head", "--swap", "--weights"}) {
    if (command.count(flag) == 0) continue;
    refuse_without_effect(flag, fmt::format("with the example '{}'", name),
                          "pass the directory of a run instead of an example");
  }
}

/// Returns the example that is the subject; nullptr if the subject is not the name of an example.
const ExplainExample* example_of(const ExplainArguments& arguments, const CLI::App& command) {
  for (const auto& example : explain_examples()) {
    if (example.name != arguments.subject) continue;
    check_example_options(command, arguments.subject);
    return &example;
  }
  return nullptr;
}

train::Run load_run(const ExplainArguments& arguments) {
  const auto& subject = arguments.subject;
  std::error_code missing;
  if (!std::filesystem::exists(subject, missing)) {
    std::vector<std::string> names;
    for (const auto& example : explain_examples()) names.emplace_back(example.name);
    throw InputError(fmt::format(
        "{}: no such run, and no example: expected the directory of a run, or one of {}{}", subject,
        fmt::join(names, ", "), train::did_you_mean(subject, names)));
  }
  if (arguments.text.empty()) {
    train::RunDirectory::open(subject);  // throws if the subject is not a run
    throw InputError(
        fmt::format("{}: the explanation of a run requires a text: pass --text TEXT", subject));
  }
  return arguments.run.load(subject);
}

Explanation explain(const ExplainArguments& arguments, const CLI::App& command) {
  if (const auto* example = example_of(arguments, command))
    return example->explain(arguments.question.token);
  auto run = load_run(arguments);
  return RunExplainer({run, arguments.text, arguments.answer}, arguments.question).explain();
}

/// Returns the page of the example or the run that is the subject.
std::string page_of(const ExplainArguments& arguments, const CLI::App& command) {
  if (const auto* example = example_of(arguments, command))
    return explanation_page(example->explain(arguments.question.token));
  auto run = load_run(arguments);
  return explanation_page({run, arguments.text, arguments.answer}, arguments.question,
                          arguments.text);
}

void write_page(const ExplainArguments& arguments, const CLI::App& command) {
  for (const auto* flag : {"--json", "--step", "--no-pager"}) {
    if (command.count(flag) > 0) refuse_without_effect(flag, "beside --html", "remove --html");
  }
  check_output_file("--html", arguments.html, arguments.subject, arguments.overwrite);
  replace_file(arguments.html, page_of(arguments, command));
  fmt::print("{}: {}\n", printable(arguments.html),
             bytes_text(static_cast<double>(std::filesystem::file_size(arguments.html))));
}

/// Returns text with empty lines at its end, so that the next step begins on a new screen of
/// `height` lines. A height of 0 is unknown.
std::string filled(std::string text, std::size_t height) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (height > 0 && lines % height > 0) text.append(height - lines % height, '\n');
  return text;
}

void list_examples() {
  for (const auto& example : explain_examples())
    fmt::print("{:<10} {}\n", example.name, example.summary);
}

void run_explain(const ExplainArguments& arguments, const CLI::App& command) {
  if (arguments.list) {
    for (const auto* option : command.get_options()) {
      const auto name = option->get_name();
      if (option->count() > 0 && name != "--list")
        refuse_without_effect(name, "beside --list", "remove --list");
    }
    return list_examples();
  }
  if (arguments.subject.empty())
    throw InputError("expected the directory of a run or the name of an example (see --list)");
  const torch::NoGradGuard no_grad;
  if (command.count("--html") > 0) return write_page(arguments, command);
  if (arguments.overwrite) refuse_without_effect("--overwrite", "without --html");
  const auto explanation = explain(arguments, command);
  const auto count = explanation.steps.size();
  const bool all = arguments.step == 0;
  if (!all) check_range("--step", arguments.step, static_cast<int64_t>(count));
  const auto first = all ? 0 : static_cast<std::size_t>(arguments.step - 1);
  const auto last = all ? count : first + 1;
  if (arguments.json) {
    auto json = to_json(explanation);
    if (!all) json["steps"] = nlohmann::ordered_json::array({json["steps"][first]});
    fmt::print("{}\n", json_text(json));
    return;
  }
  const char* pager = std::getenv("PAGER");
  const bool paged =
      !arguments.no_pager && output_is_terminal() && (pager == nullptr || *pager != '\0');
  const ExplanationColors colors{.highlight = output_has_colors(),
                                 .heat_map = output_has_256_colors()};
  const TextSize screen{
      .width = static_cast<std::size_t>(std::max(40, terminal_width(STDOUT_FILENO))),
      // The last line is that of the prompt of the pager.
      .height = static_cast<std::size_t>(paged ? std::max(0, terminal_height() - 1) : 0)};
  std::string text;
  for (auto i = first; i < last; ++i) {
    const std::string title = all && i == 0 ? explanation.title + "\n\n" : "";
    auto size = screen;
    if (!title.empty()) size.height -= std::min<std::size_t>(size.height, 2);
    const auto step = title + step_text(explanation, i, size, colors);
    text += all && paged ? filled(step, screen.height) : step;
    if (i + 1 < last && (!paged || screen.height == 0)) text += "\n";
  }
  if (paged)
    show_in_pager(text);
  else
    fmt::print("{}", text);
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto* command = app.add_subcommand("explain", "Show attention step by step, with all numbers");
  auto arguments = std::make_shared<ExplainArguments>();
  command
      ->add_option("subject", arguments->subject,
                   "directory of a run, or name of an example (see --list)")
      ->type_name(kSubjectType);
  command->add_option("--text", arguments->text, "text that the model of the run reads")
      ->type_name("TEXT")
      ->group("Run");
  arguments->run.add_weights_to(*command);
  command
      ->add_option("--answer", arguments->answer,
                   "seq2seq only: beginning of the answer [the answer of the model]")
      ->type_name("TEXT")
      ->group("Run");
  add_number(*command, "--layer", arguments->question.layer, kPositive, "layer, from 1", "LAYER")
      ->default_str("the last")
      ->group("Run");
  add_number(*command, "--head", arguments->question.head, kPositive, "attention head, from 1",
             "HEAD")
      ->group("Run");
  command->add_flag("--list", arguments->list, "list the examples");
  const auto add_list = [&](const char* flag, std::vector<std::string>& target, const char* type,
                            const char* help) {
    command->add_option(flag, target, help)
        ->allow_extra_args(false)
        ->type_name(type)
        ->group("Run, changes");
  };
  auto& question = arguments->question;
  add_list("--mask", question.masks, "TOKEN",
           "run again without attention to this token of the text, or to its number; may be "
           "repeated [none]");
  add_list("--no-head", question.no_heads, "LAYER.HEAD",
           "run again without the output of this head; may be repeated [none]");
  add_list("--swap", question.swaps, "TOKEN=NEW",
           "run again with another token in the text; may be repeated [none]");
  add_number(*command, "--step", arguments->step, kPositive, "show only this step", "NUMBER")
      ->default_str("all");
  command
      ->add_option("--token", arguments->question.token,
                   "token that is followed through all steps, or its number in the text [of a run: "
                   "the last]")
      ->type_name("TOKEN");
  command->add_flag("--json", arguments->json, "print the steps with all numbers as a JSON object")
      ->group("Output");
  command
      ->add_option(
          "--html", arguments->html,
          "write the steps as a page for a browser, where each number leads to the numbers "
          "it comes from")
      ->type_name("FILE")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file of --html")
      ->group("Output");
  command
      ->add_flag("--no-pager", arguments->no_pager,
                 "on a terminal, print the steps instead of showing them with $PAGER [less]")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend explain sky\n"
      "  attend explain bank --step 6\n"
      "  attend explain runs/first --text \"the boat was near the bank . bank\" --head 2\n"
      "  attend explain runs/first --text \"the boat was near the bank . bank\" --mask boat\n"
      "  attend explain runs/first --text \"the boat was near the bank\" --html bank.html");
  command->callback([=] { run_explain(*arguments, *command); });
}

}  // namespace attend::app
