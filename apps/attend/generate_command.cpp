#include "attend/input_error.h"
#include "attend/io/text_stream.h"
#include "attend/models/generation.h"
#include "attend/models/prepare_for_inference.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "runs/run_option.h"
#include "terminal/terminal.h"
#include "texts/chat.h"
#include "texts/prompt.h"
#include "texts/text_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace attend::app {
namespace {

struct GenerateArguments {
  RunOption run;
  PromptOptions prompt;
  GenerationOptions options{.max_new_tokens = 200, .sampling = {.temperature = 0.8}};
  uint64_t seed = 1;  ///< seed of the first sample
  std::vector<std::string> stops;
  std::optional<WeightFormat> weight_format;
  int64_t samples = 1;
  bool no_echo = false;
  bool json = false;
  bool chat = false;
  std::optional<std::string> system;
};

/// Decodes tokens as they are generated, and prints their text. Text that may be the start of a
/// stop text, and the bytes of an incomplete UTF-8 character, are buffered.
class TokenStream {
 public:
  using Print = std::function<void(const std::string&)>;

  /// `stops`: see `TextStream`.
  TokenStream(TextModel::Decoder decoder, const std::vector<std::string>& stops, Print print)
      : decoder_(std::move(decoder)), stream_(stops), print_(std::move(print)) {}

  /// Adds a token; returns false once a stop text was found.
  bool add(int64_t token) {
    ++tokens_;
    print_(stream_.add(decoder_(token)));
    return !stopped_by();
  }
  /// Prints the buffered text.
  void finish() {
    if (!stopped_by()) print_(stream_.add(decoder_(std::nullopt)));
    print_(stream_.finish());
  }

  int64_t tokens() const { return tokens_; }
  const std::optional<std::string>& stopped_by() const { return stream_.stopped_by(); }

 private:
  TextModel::Decoder decoder_;
  TextStream stream_;
  Print print_;
  int64_t tokens_ = 0;
};

/// Generates tokens with a LanguageModel or a Seq2Seq.
struct GenerateVisitor {
  const TextModel& text;
  const std::vector<int64_t>& prompt;
  const GenerationOptions& options;

  GeneratedSequence operator()(const LanguageModel& model) const {
    return generate(model, prompt, options);
  }
  GeneratedSequence operator()(const Seq2Seq& model) const {
    return generate(model, prompt, text.special_tokens, options);
  }
  GeneratedSequence operator()(const SequenceClassifier&) const {
    return {};
  }  // never called: text_model_of throws
};

/// Generates samples for a prompt, each with its own seed.
class TextGenerator {
 public:
  TextGenerator(TextModel text, const GenerateArguments& arguments)
      : text_(std::move(text)), arguments_(arguments) {}

  TextModel& text() { return text_; }
  /// Sets the tokens that `generate_sample` continues. A text of its own, without `context`, is
  /// decoded without them.
  void set_prompt(TextModel::Tokens prompt, bool is_context = true) {
    prompt_ = std::move(prompt);
    context_ = is_context ? prompt_ : TextModel::Tokens();
  }
  void set_prompt(const Prompt& prompt) { set_prompt(encode(prompt)); }

  bool continues() const { return text_.continues(); }

  /// Generates sample n, counted from 0, with the seed `seed(n)`. Calls `print` with each piece of
  /// text. Ends if `is_stopped` returns true after a token. The returned stream contains the number
  /// of tokens, and the stop text if one was found.
  TokenStream generate_sample(
      int64_t n, const TokenStream::Print& print,
      const std::function<bool()>& is_stopped = [] { return false; }) {
    TokenStream stream(text_.decoder(context_), arguments_.stops, print);
    auto options = arguments_.options;
    options.seed = seed(n);
    options.eos_tokens = text_.eos_tokens;
    auto tokens = prompt_;
    // Adds a token; returns false if it is the last one.
    const auto add = [&](int64_t token) {
      const bool is_last = !stream.add(token) || is_stopped();
      if (!text_.is_complete) return !is_last;
      tokens.push_back(token);
      return !is_last && (stream.tokens() < options.min_new_tokens || !text_.is_complete(tokens));
    };
    if (options.num_beams == 1) {
      options.on_token = [&](const GeneratedToken& token) { return add(token.token); };
    }
    const auto result = std::visit(GenerateVisitor{text_, prompt_, options}, text_.model);
    // Without beam search, `on_token` has already added the tokens to `stream`.
    for (const auto token : result.tokens) {
      if (options.num_beams == 1 || !add(token)) break;
    }
    stream.finish();
    return stream;
  }

  uint64_t seed(int64_t n) const { return arguments_.seed + static_cast<uint64_t>(n); }

 private:
  std::vector<int64_t> encode(const Prompt& prompt) const {
    return with_source(prompt.source, [&] {
      auto tokens = text_.encode(prompt.text);
      if (tokens.empty()) tokens = text_.empty_prompt;
      if (tokens.empty())
        throw InputError(
            "the prompt is empty and the model cannot begin with a line break: expected at "
            "least one token");
      const auto* seq2seq = std::get_if<Seq2Seq>(&text_.model);
      if (seq2seq != nullptr && std::ssize(tokens) > (*seq2seq)->config.max_seq_len) {
        throw InputError(
            fmt::format("the prompt has {} tokens, expected at most {} (max_seq_len of the model)",
                        tokens.size(), (*seq2seq)->config.max_seq_len));
      }
      return tokens;
    });
  }

  TextModel text_;
  TextModel::Tokens prompt_;
  TextModel::Tokens context_;
  const GenerateArguments& arguments_;
};

void chat(TextGenerator& generator, const GenerateArguments& arguments) {
  auto& text = generator.text();
  text.eos_tokens = end_of_turn_tokens(text, arguments.run.directory());
  const auto answer = [&](const TextModel::Tokens& prompt, uint64_t turn,
                          const std::function<bool()>& is_stopped) {
    generator.set_prompt(prompt, /*is_context=*/false);
    std::string written;
    const auto print = [&](const std::string& more) {
      written += more;
      print_text_now(more);
    };
    generator.generate_sample(static_cast<int64_t>(turn), print, is_stopped);
    return written;
  };
  hold_chat(text,
            {.system = arguments.system,
             .max_new_tokens = arguments.options.max_new_tokens,
             .max_line_bytes = arguments.prompt.max_bytes()},
            answer);
}

void print_samples(TextGenerator& generator, const Prompt& prompt,
                   const GenerateArguments& arguments) {
  for (int64_t n = 0; n < arguments.samples; ++n) {
    // The headers go to standard error, so that standard output contains only the text.
    if (arguments.samples > 1) {
      write_error(fmt::format("--- sample {} of {} ---\n", n + 1, arguments.samples));
    }
    if (!arguments.no_echo && generator.continues()) print_text_now(prompt.text);
    generator.generate_sample(n, print_text_now);
    print_now("\n");
  }
}

void print_samples_as_json(TextGenerator& generator, const Prompt& prompt,
                           const GenerateArguments& arguments) {
  auto before = json_text({{"prompt", prompt.text}, {"seed", arguments.seed}});
  before.replace(before.size() - 1, 1, ",\"samples\":[");  // instead of the closing brace
  // Each sample is printed at once, so that memory does not limit their number.
  for (int64_t n = 0; n < arguments.samples; ++n) {
    std::string text;
    const auto end = generator.generate_sample(n, [&](const std::string& more) { text += more; });
    nlohmann::ordered_json sample{
        {"seed", generator.seed(n)}, {"text", text}, {"tokens", end.tokens()}};
    sample["stopped_by"] = nullptr;  // null: ended by max_new_tokens or the answer
    if (end.stopped_by()) sample["stopped_by"] = *end.stopped_by();
    print_now(before + json_text(sample));
    before = ",";
  }
  print_now("]}\n");
}

/// Returns the number of tokens that a model can generate.
struct VocabSize {
  int64_t operator()(const LanguageModel& model) const { return model->config.vocab_size; }
  int64_t operator()(const Seq2Seq& model) const { return model->config.target_vocab_size; }
  int64_t operator()(const SequenceClassifier&) const {
    return 0;
  }  // never called: text_model_of throws
};

void prepare(torch::nn::Module& model, WeightFormat format) {
  const auto device = model.parameters().front().device();
  if (!device.is_cpu()) {
    throw InputError(fmt::format("--weight-format {} requires --device cpu, found {}",
                                 to_string(format), device.str()));
  }
  if (prepare_for_inference(model, format) > 0) return;
  write_error(
      fmt::format("--weight-format {} has no effect: no weight matrix has 131,072 elements, or the "
                  "format is not supported on this machine\n",
                  to_string(format)));
}

/// Throws InputError for an option without effect.
void check_effects(const CLI::App& command, const GenerateArguments& arguments) {
  const bool is_beam_search = arguments.options.num_beams > 1;
  const bool is_greedy = arguments.options.sampling.temperature == 0.0;
  const auto num_beams = fmt::format("--num-beams {}", arguments.options.num_beams);
  const auto deterministic =
      is_beam_search ? fmt::format("beside {}, which draws no tokens at random", num_beams)
                     : "beside --temperature 0, which always chooses the most likely token";
  if (command.count("--length-penalty") > 0 && !is_beam_search) {
    refuse_without_effect("--length-penalty",
                          fmt::format("with {}, which is not a beam search", num_beams),
                          "pass a larger --num-beams");
  }
  if (arguments.options.min_new_tokens > arguments.options.max_new_tokens) {
    throw InputError(fmt::format("--min-new-tokens {}: expected at most --max-new-tokens {}",
                                 arguments.options.min_new_tokens,
                                 arguments.options.max_new_tokens));
  }
  if (arguments.samples > 1 && (is_beam_search || is_greedy))
    refuse_without_effect(fmt::format("--num-samples {}", arguments.samples), deterministic);
  for (const auto* flag : {"--temperature", "--top-k", "--top-p", "--min-p", "--seed"}) {
    const bool sets_greedy = is_greedy && std::string_view(flag) == "--temperature";
    if (command.count(flag) > 0 && (is_beam_search || (is_greedy && !sets_greedy)))
      refuse_without_effect(flag, deterministic);
  }
  if (arguments.chat) {
    for (const auto* flag : {"--prompt", "--prompt-file", "--num-samples", "--no-echo", "--json"}) {
      if (command.count(flag) > 0) refuse_without_effect(flag, "beside --chat");
    }
  } else if (arguments.system) {
    refuse_without_effect("--system", "without --chat");
  }
  if (arguments.json && arguments.no_echo)
    refuse_without_effect("--no-echo", "beside --json, whose texts do not contain the prompt");
}

/// Throws InputError if the vocabulary of the model does not contain a suppressed token.
void check_suppressed(const GenerationOptions& options, const Model& model) {
  const auto vocab_size = std::visit(VocabSize{}, model);
  for (const auto token : options.sampling.suppress_tokens) {
    if (token < vocab_size) continue;
    throw InputError(
        fmt::format("--suppress-tokens: the model has no token {}, expected ids from 0 to {}",
                    token, vocab_size - 1));
  }
}

void run_generate(const CLI::App& command, GenerateArguments& arguments) {
  check_effects(command, arguments);
  if (arguments.options.num_beams > 1)
    arguments.options.sampling.temperature = 0.0;  // beam search requires 0; the default is 0.8
  auto text = std::visit(
      [&](auto model) { return text_model_of(std::move(model), arguments.run.directory()); },
      arguments.run.load_run_or_pretrained());
  check_suppressed(arguments.options, text.model);
  if (arguments.weight_format) prepare(module_of(text.model), *arguments.weight_format);
  TextGenerator generator(std::move(text), arguments);
  if (arguments.chat) return chat(generator, arguments);
  const auto prompt = arguments.prompt.read();
  generator.set_prompt(prompt);
  (arguments.json ? print_samples_as_json : print_samples)(generator, prompt, arguments);
}

/// Parses token ids that are separated by commas. Throws CLI::ValidationError with `flag`.
std::vector<int64_t> parse_token_ids(const std::string& flag, const std::string& text) {
  std::vector<int64_t> ids;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    ids.push_back(parse_number<int64_t>(flag, part));
    if (ids.back() < 0)
      throw CLI::ValidationError(flag, fmt::format("must not be negative, found {}", part));
  }
  if (ids.empty() || text.ends_with(','))
    throw CLI::ValidationError(
        flag, fmt::format("expected token ids separated by commas, found '{}'", text));
  return ids;
}

void add_sampling(CLI::App& command, GenerateArguments& arguments) {
  const auto add = [&](const char* flag, auto& target, const Requirement& requirement,
                       const char* help, const auto&... unit) {
    add_number(command, flag, target, requirement, help, unit...)->group("Sampling");
  };
  auto& sampling = arguments.options.sampling;
  add("--temperature", sampling.temperature, kNotNegative, "sampling temperature; 0 = greedy");
  add("--top-k", sampling.top_k, kNotNegative, "sample from the k most likely tokens; 0 = all",
      "TOKENS");
  add("--top-p", sampling.top_p, kFraction,
      "nucleus sampling: sample from the smallest set of most likely tokens with at least this "
      "total probability; 1 = all, 0 = only the most likely token",
      "PROBABILITY");
  add("--min-p", sampling.min_p, kFraction,
      "sample from the tokens whose probability is at least this fraction of the highest "
      "probability; 0 = all",
      "FRACTION");
  add("--repetition-penalty", sampling.repetition_penalty, kPositive,
      "penalty for tokens already in the text; 1 = none", "FACTOR");
  add("--no-repeat-ngram-size", sampling.no_repeat_ngram_size, kNotNegative,
      "generate no sequence of this number of tokens that the text already contains; 0 = off",
      "TOKENS");
  command
      .add_option_function<std::string>(
          "--suppress-tokens",
          [&sampling](const std::string& text) {
            sampling.suppress_tokens = parse_token_ids("--suppress-tokens", text);
          },
          "token ids, separated by commas, that are never generated [none]")
      ->type_name("IDS")
      ->group("Sampling");
  add("--seed", arguments.seed, kNotNegative,
      "random seed of the first sample; each further sample uses the next integer");
  add_number(command, "--num-beams", arguments.options.num_beams, kBeams,
             "beam search with this number of beams (at most 1024) instead of sampling", "BEAMS")
      ->group("Beam search");
  add_number(command, "--length-penalty", arguments.options.length_penalty,
             Requirement{"be finite", [](double) { return true; }},
             "exponent p in the score of a beam, log-probability / length^p; positive values favor "
             "longer texts")
      ->group("Beam search");
}

void add_weight_format(CLI::App& command, GenerateArguments& arguments) {
  const auto set = [&arguments](const std::string& text) {
    arguments.weight_format = parse_choice<WeightFormat>("--weight-format", text);
  };
  command
      .add_option_function<std::string>(
          "--weight-format", set,
          "make copies of the model's large weights (131,072 elements or more) for faster "
          "generation on a CPU: packed = exact; bf16, int8 and int4 are faster, but less exact "
          "[default: no copies]")
      ->type_name(choices<WeightFormat>())
      ->group("Model");
}

void add_chat(CLI::App& command, GenerateArguments& arguments) {
  command
      .add_flag("--chat", arguments.chat,
                "hold a conversation with a model that has a chat template: each line of standard "
                "input is a message; /reset begins a new conversation, /exit ends the command, and "
                "Ctrl-C ends an answer")
      ->group("Chat");
  // As for --prompt, the unconverted text is used.
  command
      .add_option("--system", CLI::callback_t([&arguments](const CLI::results_t& texts) {
                    arguments.system = texts.front();
                    return true;
                  }),
                  "message with the role system at the beginning of each conversation")
      ->type_name("TEXT")
      ->group("Chat");
}

void add_output(CLI::App& command, GenerateArguments& arguments) {
  constexpr const char* kGroup = "Output";
  add_number(command, "--max-new-tokens", arguments.options.max_new_tokens, kNotNegative,
             "maximum number of tokens to generate; the answer of a task may end earlier", "TOKENS")
      ->group(kGroup);
  add_number(
      command, "--min-new-tokens", arguments.options.min_new_tokens, kNotNegative,
      "minimum number of tokens to generate: the text does not end earlier, except at a text "
      "of --stop",
      "TOKENS")
      ->group(kGroup);
  // The unparsed arguments are used, because CLI11 would parse {} and [a] as lists.
  command
      .add_option("--stop", CLI::callback_t([&arguments](const CLI::results_t& texts) {
                    if (std::count(texts.begin(), texts.end(), "") > 0) {
                      throw CLI::ValidationError("--stop", "must not be empty");
                    }
                    arguments.stops = texts;
                    return true;
                  }),
                  "end the generation at this text, which is not printed; repeatable")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false)
      ->group(kGroup);
  add_number(command, "--num-samples", arguments.samples, kPositive,
             "number of samples; if > 1, a header on standard error precedes each sample",
             "SAMPLES")
      ->group(kGroup);
  command
      .add_flag("--no-echo", arguments.no_echo, "print only the generated text, without the prompt")
      ->group(kGroup);
  command
      .add_flag("--json", arguments.json,
                "print one JSON object: prompt, seed, samples (seed, text, tokens = number of "
                "generated tokens, stopped_by)")
      ->group(kGroup);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Generate text with a trained or published model");
  auto arguments = std::make_shared<GenerateArguments>();
  arguments->run.add_to(*command, "run", kRunOrPretrained);
  arguments->run.add_device_to(*command);
  add_weight_format(*command, *arguments);
  arguments->prompt.add_to(*command);
  add_chat(*command, *arguments);
  add_sampling(*command, *arguments);
  add_output(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  attend generate runs/text --prompt \"The \" --max-new-tokens 300 --top-p 0.9\n"
      "  attend generate runs/translation --prompt \"the red cat sees the dog\"\n"
      "  attend generate runs/text --num-samples 3 --stop . < prompt.txt\n"
      "  attend generate Qwen3-0.6B --chat --system \"Answer briefly.\"\n"
      "  attend generate Qwen3-0.6B --prompt \"The capital of France is\" --temperature 0");
  command->callback([=] { run_generate(*command, *arguments); });
}

}  // namespace attend::app
