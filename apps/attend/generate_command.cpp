#include "attend/input_error.h"
#include "attend/models/generation.h"
#include "attend/train/answer.h"
#include "commands.h"
#include "number_option.h"
#include "prompt.h"
#include "run_option.h"
#include "terminal.h"
#include "token_stream.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace attend::app {
namespace {

struct GenerateArguments {
  RunOption run;
  PromptOptions prompt;
  GenerationOptions options{.max_new_tokens = 200, .sampling = {.temperature = 0.8}};
  uint64_t seed = 1;
  std::vector<std::string> stops;
  int64_t samples = 1;
  bool no_echo = false;
  bool json = false;
};

/// What a model of any kind writes to a prompt.
struct Write {
  const train::Run& run;
  const std::vector<int64_t>& prompt;
  const GenerationOptions& options;
  const torch::Generator& generator;
  const std::function<bool(int64_t)>& on_token;

  void operator()(LanguageModel& model) const {
    generate(model, prompt, options, generator, on_token);
  }
  void operator()(Seq2Seq& model) const {
    generate(model, prompt, train::answer_tokens(*run.tokenizer), options, generator, on_token);
  }
  void operator()(SequenceClassifier&) const {}  // refused before
};

/// Continues or answers a prompt as often as one likes, each time with a seed of its own.
class Writer {
 public:
  Writer(train::Run run, const Prompt& prompt, const GenerateArguments& arguments)
      : run_(std::move(run)), prompt_(encode(prompt)), arguments_(arguments) {
    if (std::holds_alternative<SequenceClassifier>(run_.model)) {
      throw InputError("the run has trained a classifier, which writes no text");
    }
  }

  /// Whether the text goes on from the prompt, or is an answer to it.
  bool continues() const { return std::holds_alternative<LanguageModel>(run_.model); }

  /// The n-th sample, from 0: what the seed after n others gives by itself. `print` gets its text
  /// as it comes. Returns the stream at its end.
  TokenStream write(int64_t n, const TokenStream::Print& print) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed(n));
    const auto decode = [this](const auto& tokens) { return run_.tokenizer->decode(tokens); };
    const auto before = continues() ? std::optional(prompt_.back()) : std::nullopt;
    TokenStream stream(decode, before, arguments_.stops, print);
    const std::function<bool(int64_t)> add = [&](int64_t token) { return stream.add(token); };
    std::visit(Write{run_, prompt_, arguments_.options, generator, add}, run_.model);
    stream.finish();
    return stream;
  }

  uint64_t seed(int64_t n) const { return arguments_.seed + static_cast<uint64_t>(n); }

 private:
  std::vector<int64_t> encode(const Prompt& prompt) const {
    return with_source(prompt.source, [&] {
      auto tokens = run_.tokenizer->encode(prompt.text);
      if (tokens.empty()) throw InputError("the prompt is empty: expected at least one token");
      return tokens;
    });
  }

  train::Run run_;
  std::vector<int64_t> prompt_;
  const GenerateArguments& arguments_;
};

void print_samples(Writer& writer, const Prompt& prompt, const GenerateArguments& arguments) {
  for (int64_t n = 0; n < arguments.samples; ++n) {
    // Not on standard output, which so holds nothing but text.
    if (arguments.samples > 1) {
      write_error(fmt::format("--- sample {} of {} ---\n", n + 1, arguments.samples));
    }
    if (!arguments.no_echo && writer.continues()) print_now(prompt.text);
    writer.write(n, print_now);
    print_now("\n");
  }
}

void print_samples_as_json(Writer& writer, const Prompt& prompt,
                           const GenerateArguments& arguments) {
  nlohmann::ordered_json samples;
  for (int64_t n = 0; n < arguments.samples; ++n) {
    std::string text;
    const auto end = writer.write(n, [&](const std::string& more) { text += more; });
    nlohmann::ordered_json sample{
        {"seed", writer.seed(n)}, {"text", text}, {"tokens", end.tokens()}};
    sample["stopped_by"] = nullptr;  // the number of tokens
    if (end.stopped_by()) sample["stopped_by"] = *end.stopped_by();
    samples.push_back(std::move(sample));
  }
  const nlohmann::ordered_json json{
      {"prompt", prompt.text}, {"seed", arguments.seed}, {"samples", samples}};
  // A model of bytes may write what is no UTF-8, which JSON cannot hold.
  print_now(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void run_generate(const GenerateArguments& arguments) {
  auto run = arguments.run.load();
  const auto prompt = arguments.prompt.read();
  Writer writer(std::move(run), prompt, arguments);
  (arguments.json ? print_samples_as_json : print_samples)(writer, prompt, arguments);
}

void add_sampling(CLI::App& command, GenerateArguments& arguments) {
  const auto add = [&](const char* flag, auto& target, const Requirement& requirement,
                       const char* help, const auto&... unit) {
    add_number(command, flag, target, requirement, help, unit...)->group("Sampling");
  };
  auto& sampling = arguments.options.sampling;
  add("--temperature", sampling.temperature, kNotNegative,
      "divides the scores; 0 = always the likeliest token");
  add("--top-k", sampling.top_k, kNotNegative, "draw from the k likeliest tokens; 0 = from all",
      "TOKENS");
  add("--top-p", sampling.top_p, kShare,
      "from the fewest tokens that together have this probability; 1 = from all", "PROBABILITY");
  add("--min-p", sampling.min_p, kShare,
      "from those with this share of the likeliest one's probability; 0 = from all", "SHARE");
  add("--repetition-penalty", sampling.repetition_penalty, kPositive,
      "divides the scores of tokens that the text has; 1 = none", "FACTOR");
  add("--seed", arguments.seed, kNotNegative,
      "of the drawing; the samples after the first take the numbers after it");
}

void add_output(CLI::App& command, GenerateArguments& arguments) {
  constexpr const char* kGroup = "Output";
  add_number(command, "--tokens", arguments.options.max_new_tokens, kNotNegative,
             "tokens to generate at most", "TOKENS")
      ->group(kGroup);
  // What was typed: CLI11's own reading of lists takes {} and [a] for lists.
  command
      .add_option("--stop", CLI::callback_t([&arguments](const CLI::results_t& texts) {
                    if (std::count(texts.begin(), texts.end(), "") > 0) {
                      throw CLI::ValidationError("--stop", "must not be empty");
                    }
                    arguments.stops = texts;
                    return true;
                  }),
                  "end before this text, which is not printed; can be given several times")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false)
      ->group(kGroup);
  add_number(command, "--samples", arguments.samples, kPositive,
             "texts to generate, each announced on standard error if there are several", "SAMPLES")
      ->group(kGroup);
  command.add_flag("--no-echo", arguments.no_echo, "print the new text only, not the prompt")
      ->group(kGroup);
  command
      .add_flag("--json", arguments.json,
                "print one JSON object at the end, with the new texts and why they end")
      ->group(kGroup);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("generate", "Continue a text, or answer it, with a trained model");
  auto arguments = std::make_shared<GenerateArguments>();
  arguments->run.add_to(*command);
  arguments->run.add_device_to(*command);
  arguments->prompt.add_to(*command);
  add_sampling(*command, *arguments);
  add_output(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  attend generate runs/text --prompt \"The \" --tokens 300 --top-p 0.9\n"
      "  attend generate runs/translation --prompt \"the red cat sees the dog\"\n"
      "  attend generate runs/text --samples 3 --stop . < prompt.txt");
  command->callback([=] { run_generate(*arguments); });
}

}  // namespace attend::app
