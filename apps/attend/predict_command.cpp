#include "attend/input_error.h"
#include "attend/train/answer.h"
#include "commands.h"
#include "evaluation_text.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "io/utf8.h"
#include "options.h"
#include "prompt.h"
#include "run_option.h"
#include "terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace attend::app {
namespace {

struct PredictArguments {
  RunOption run;
  std::vector<std::string> texts;
  std::string file;
  int64_t top = 1;  ///< number of classes per text; 0 = all
  int64_t max_text_bytes = kMaxPromptBytes;
  bool json = false;
};

struct Prediction {
  std::string name;  ///< of the class
  double probability;
};

/// Predicts the classes of texts and prints them.
class Predictor {
 public:
  explicit Predictor(const PredictArguments& arguments)
      : arguments_(arguments), run_(arguments.run.load()) {
    if (std::holds_alternative<SequenceClassifier>(run_.model)) return;
    throw InputError(fmt::format(
        "{0}: attend predict requires a sequence_classifier, found a {1}; use attend generate {0}",
        arguments.run.directory(), train::model_kind(run_.recipe.model)));
  }

  /// `source` is used in the message if the text cannot be encoded.
  void print(const std::string& text, const std::string& source) {
    const auto predictions = with_source(source, [&] {
      return changing_unknown_token(&UnknownTokenError::without_place, [&] {
        return with_options_of_task(run_.recipe.task, [&] { return predict(text); });
      });
    });
    const bool is_truncated = std::ssize(run_.tokenizer->encode(text)) > run_.recipe.max_seq_len();
    ++num_texts_;
    num_truncated_ += is_truncated;
    print_now((arguments_.json ? json(text, predictions, is_truncated) : line(predictions)) + "\n");
  }

  /// Prints how many texts were truncated, if any, to standard error.
  void print_truncated() const {
    if (num_truncated_ == 0) return;
    write_error(
        fmt::format("truncated {}\n", truncation_text(num_truncated_, num_texts_, run_.recipe)));
  }

  void print_lines(std::istream& input, const std::string& source) {
    std::string line;
    for (int64_t number = 1;; ++number) {
      const auto place = fmt::format("{}:{}", source, number);
      if (!read_line(input, line, place, text_limit(arguments_.max_text_bytes))) return;
      if (line.ends_with('\r')) line.pop_back();
      if (number == 1) line.erase(0, line.size() - without_byte_order_mark(line, place).size());
      print(line, place);
    }
  }

 private:
  /// Returns the most probable classes, by descending probability.
  std::vector<Prediction> predict(const std::string& text) {
    const auto probabilities =
        train::class_probabilities(std::get<SequenceClassifier>(run_.model), *run_.tokenizer, text,
                                   run_.recipe.data.truncate);  // (C)
    const auto [sorted, order] =
        probabilities.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
    const auto count = static_cast<int64_t>(run_.classes.size());
    std::vector<Prediction> predictions;
    for (int64_t i = 0; i < (arguments_.top == 0 ? count : std::min(arguments_.top, count)); ++i) {
      predictions.push_back({run_.classes.at(static_cast<std::size_t>(order[i].item<int64_t>())),
                             sorted[i].item<double>()});
    }
    return predictions;
  }

  static std::string line(const std::vector<Prediction>& predictions) {
    std::string text;
    for (const auto& each : predictions) {
      text += fmt::format("{}{}\t{:.4f}", text.empty() ? "" : "\t", printable(each.name),
                          each.probability);
    }
    return text;
  }

  static std::string json(const std::string& text, const std::vector<Prediction>& predictions,
                          bool is_truncated) {
    nlohmann::ordered_json json{{"text", text}, {"truncated", is_truncated}};
    for (const auto& each : predictions) {
      json["predictions"].push_back({{"class", each.name}, {"probability", each.probability}});
    }
    // A byte-level model accepts invalid UTF-8.
    return json_text(json);
  }

  const PredictArguments& arguments_;
  train::Run run_;
  int64_t num_texts_ = 0;
  int64_t num_truncated_ = 0;
};

void run_predict(const PredictArguments& arguments) {
  Predictor predictor(arguments);
  if (!arguments.texts.empty()) {
    for (const auto& text : arguments.texts)
      predictor.print(text, fmt::format("'{}'", printable(text)));
  } else if (!arguments.file.empty() && arguments.file != "-") {
    auto lines = open_to_read(arguments.file);
    predictor.print_lines(lines, arguments.file);
  } else if (arguments.file.empty() && input_is_terminal()) {
    throw InputError("no text: expected TEXT, --file FILE or lines on standard input");
  } else {
    predictor.print_lines(std::cin, "standard input");
  }
  predictor.print_truncated();
}

/// Adds the arguments TEXT. CLI11 would parse a text such as [()] as a list and remove its
/// brackets. Therefore the texts are collected by a validator, which CLI11 calls with the unchanged
/// argument. CLI11 also validates the parsed lists, after it has called the callback of the
/// argument `run`. With an unlimited number of expected texts, arguments after "--" are texts also
/// if other texts precede them.
CLI::Option* add_texts(CLI::App& command, std::vector<std::string>& texts) {
  const auto* run = command.get_option("run");
  command.validate_positionals();
  return command
      .add_option("text", CLI::callback_t([](const auto&) { return true; }),
                  "texts to classify [lines of standard input]")
      ->type_name("TEXT")
      ->expected(CLI::detail::expected_max_vector_size, -1)
      ->allow_extra_args()
      ->take_all()
      ->check([run, &texts](const std::string& text) {
        if (!run->get_callback_run()) texts.push_back(text);
        return std::string();
      });
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto* command = app.add_subcommand("predict", "Predict the classes of texts with a classifier");
  auto arguments = std::make_shared<PredictArguments>();
  arguments->run.add_to(*command);
  auto* texts = add_texts(*command, arguments->texts);
  command
      ->add_option("--file", arguments->file,
                   "file with one text per line; - = standard input [standard input]")
      ->type_name("FILE")
      ->check([](const std::string& file) { return file.empty() ? "must not be empty" : ""; })
      ->excludes(texts);
  add_number(*command, "--max-text-bytes", arguments->max_text_bytes, kPositive,
             "maximum size of a line of --file or standard input", "BYTES");
  arguments->run.add_device_to(*command);
  add_number(*command, "--top", arguments->top, kNotNegative,
             "number of classes to print per text, most probable first; 0 = all", "CLASSES")
      ->group("Output");
  command
      ->add_flag(
          "--json", arguments->json,
          "print one JSON object per text, on one line: text, truncated (true if it has more "
          "than max_seq_len tokens), predictions (class, probability from 0 to 1)")
      ->group("Output");
  command->footer(
      "Prints a line for each text: class and probability, separated by tabs. A text with more "
      "than\n"
      "max_seq_len tokens is truncated, as in training; at the end, the number of these texts is\n"
      "printed to standard error.\n\n"
      "Examples:\n"
      "  attend predict runs/brackets \"([])\" \"([)]\"\n"
      "  attend predict runs/lines --file lines.txt --top 3\n"
      "  attend predict runs/lines --json < lines.txt");
  command->callback([=] { run_predict(*arguments); });
}

}  // namespace attend::app
