#include "attend/input_error.h"
#include "attend/models/generation.h"
#include "attend/train/run.h"
#include "commands.h"
#include "parse_number.h"

#include <fmt/format.h>

#include <memory>

namespace attend::app {
namespace {

struct GenerateArguments {
  std::string run;
  std::string prompt;
  GenerationOptions options{.max_new_tokens = 200, .temperature = 0.8};
  uint64_t seed = 1;
};

void run_generate(const GenerateArguments& arguments) {
  auto run = train::load_run(arguments.run);
  const auto prompt = run.tokenizer->encode(arguments.prompt);
  if (prompt.empty()) throw InputError("the prompt is empty: expected at least one token");
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(arguments.seed);
  fmt::print("{}", arguments.prompt);
  // What a token adds to the text depends on the one before: between words there is a space.
  int64_t before = prompt.back();
  const auto print_token = [&](int64_t token) {
    const auto text = run.tokenizer->decode({before, token});
    fmt::print("{}", text.substr(run.tokenizer->decode({before}).size()));
    std::fflush(stdout);
    before = token;
  };
  generate(run.model, prompt, arguments.options, generator, print_token);
  fmt::print("\n");
}

/// An option for a number that is not negative; its help tells the default.
template <typename Number>
void add_number(CLI::App& command, const std::string& flag, Number& target, const char* help) {
  const auto parse = [flag, &target](const std::string& text) {
    target = parse_number<Number>(flag, text);
    if (!(target >= Number{})) {
      throw CLI::ValidationError(flag, fmt::format("must not be negative, found {}", text));
    }
  };
  command.add_option_function<std::string>(flag, parse, help)
      ->type_name(std::is_integral_v<Number> ? "INT" : "FLOAT")
      ->default_str(fmt::format("{}", target));
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Continue a text with a trained model");
  auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("run", arguments->run, "run directory")->required();
  command->add_option("--prompt", arguments->prompt, "text to continue")->required();
  auto& options = arguments->options;
  add_number(*command, "--tokens", options.max_new_tokens, "tokens to generate");
  add_number(*command, "--temperature", options.temperature, "0 = always the likeliest token");
  add_number(*command, "--top-k", options.top_k, "draw from the k likeliest tokens; 0 = from all");
  add_number(*command, "--seed", arguments->seed, "of the drawing");
  command->callback([=] { run_generate(*arguments); });
}

}  // namespace attend::app
