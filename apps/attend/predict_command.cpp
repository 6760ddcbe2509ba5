#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/io/vocabulary.h"
#include "attend/train/answer.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "runs/evaluation_text.h"
#include "runs/run_option.h"
#include "terminal/terminal.h"
#include "texts/texts_option.h"
#include "texts/token_predictor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace attend::app {
namespace {

struct PredictArguments {
  RunOption run;
  TextsOption texts;
  int64_t top = 1;  ///< number of classes per text; 0 = all
  bool has_top = false;
  std::optional<double> threshold;  ///< not set = that of the run
  bool json = false;
};

struct Prediction {
  std::string name;    ///< of the class
  double probability;  ///< for a regression, the number
};

/// A text of which the classes are not predicted yet.
struct Question {
  std::string text;
  std::vector<int64_t> tokens;
  bool is_truncated;
  bool is_unknown;  ///< true: contains no token of the vocabulary
};

train::Run load_classifier(const PredictArguments& arguments) {
  auto run = arguments.run.load();
  if (std::holds_alternative<SequenceClassifier>(run.model)) return run;
  throw InputError(fmt::format(
      "{0}: attend predict requires a sequence_classifier, found a {1}; use attend generate {0}",
      arguments.run.directory(), model_kind(run.recipe.model)));
}

/// Predicts the classes of texts and prints them.
class Predictor {
 public:
  Predictor(const PredictArguments& arguments, train::Run run)
      : arguments_(arguments), run_(std::move(run)) {
    if (num_classes() == 0) {
      throw InputError(fmt::format("{0}: the model has no classes; use attend embed {0}",
                                   arguments.run.directory()));
    }
    check_effects();
    if (arguments.threshold) run_.recipe.data.threshold = *arguments.threshold;
    if (arguments.top > num_classes()) {
      write_error(
          fmt::format("--top {}: the model has only {} classes\n", arguments.top, num_classes()));
    }
  }

  /// Adds a text. Prints the predictions of the texts that were added if there are `batch_size`.
  /// `source` is used in the message if the text cannot be encoded.
  void add(const std::string& text, const std::string& source, std::size_t batch_size) {
    questions_.push_back(with_source(source, [&] { return question(text); }));
    num_bytes_ += text.size();
    if (questions_.size() == batch_size || num_bytes_ >= kMaxBatchBytes) print_predictions();
  }

  /// Predicts the classes of the texts that were added, and prints them.
  void print_predictions() {
    if (questions_.empty()) return;
    std::vector<std::vector<int64_t>> texts;
    for (auto& question : questions_) texts.push_back(std::move(question.tokens));
    const auto probabilities =
        train::class_probabilities(std::get<SequenceClassifier>(run_.model), std::move(texts),
                                   run_.recipe.data.truncate, run_.recipe.data.problem_type);
    std::string lines;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      const auto predictions = predictions_of(probabilities[static_cast<int64_t>(i)]);
      lines += (arguments_.json ? json(questions_[i], predictions) : line(predictions)) + "\n";
    }
    print_now(lines);
    questions_.clear();
    num_bytes_ = 0;
  }

  /// Prints how many texts were truncated or unknown, if any, to standard error.
  void print_unusual() const {
    if (num_truncated_ > 0) {
      write_error(fmt::format("truncated {}\n", truncation_text(num_truncated_, num_texts_, run_)));
    }
    if (num_unknown_ > 0)
      write_error(fmt::format("unknown {}\n", unknown_text(num_unknown_, num_texts_)));
  }

 private:
  int64_t num_classes() const { return std::ssize(run_.classes); }

  Question question(const std::string& text) {
    auto encoded = changing_unknown_token(&UnknownTokenError::without_place, [&] {
      return with_options_of_task(run_.recipe.task, [&] {
        const auto& data = run_.recipe.data;
        return train::encode_prompt(*run_.tokenizer, train::with_line_breaks(text, data),
                                    run_.recipe.max_seq_len(), data.truncate);
      });
    });
    const bool is_truncated = encoded.is_truncated();
    const bool is_unknown = all_unknown(*run_.tokenizer, encoded.tokens);
    ++num_texts_;
    num_truncated_ += is_truncated;
    num_unknown_ += is_unknown;
    return {text, std::move(encoded.tokens), is_truncated, is_unknown};
  }

  bool is(train::ProblemType type) const { return run_.recipe.data.problem_type == type; }

  /// Throws InputError for an option without effect.
  void check_effects() const {
    const auto type = fmt::format("on a model whose problem_type is {}",
                                  to_string(run_.recipe.data.problem_type));
    if (arguments_.threshold && !is(train::ProblemType::multi_label_classification))
      refuse_without_effect("--threshold", type);
    if (arguments_.threshold && arguments_.has_top)
      refuse_without_effect("--threshold", "beside --top, which prints labels of any probability");
    if (arguments_.has_top && is(train::ProblemType::regression))
      refuse_without_effect("--top", type);
  }

  /// Returns the predictions to print, by descending probability. `probabilities`: (C)
  std::vector<Prediction> predictions_of(const torch::Tensor& probabilities) const {
    const auto* values = probabilities.const_data_ptr<float>();
    std::vector<std::size_t> order(run_.classes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](auto i) { return values[i]; });
    if (is(train::ProblemType::multi_label_classification) && !arguments_.has_top) {
      std::erase_if(order, [&](auto i) { return values[i] < run_.recipe.data.threshold; });
    } else if (arguments_.top != 0) {
      order.resize(static_cast<std::size_t>(std::min(arguments_.top, num_classes())));
    }
    std::vector<Prediction> predictions;
    for (const auto i : order) predictions.push_back({run_.classes.at(i), values[i]});
    return predictions;
  }

  std::string line(const std::vector<Prediction>& predictions) const {
    if (is(train::ProblemType::regression))
      return fmt::format("{:.6g}", predictions.front().probability);
    std::string text;
    for (const auto& each : predictions) {
      text += fmt::format("{}{}\t{:.4f}", text.empty() ? "" : "\t", printable(each.name),
                          each.probability);
    }
    return text;
  }

  std::string json(const Question& question, const std::vector<Prediction>& predictions) const {
    nlohmann::ordered_json json{{"text", question.text},
                                {"truncated", question.is_truncated},
                                {"unknown", question.is_unknown}};
    if (is(train::ProblemType::regression)) {
      json["prediction"] = predictions.front().probability;
    } else {
      json["predictions"] = nlohmann::ordered_json::array();
      for (const auto& each : predictions)
        json["predictions"].push_back({{"class", each.name}, {"probability", each.probability}});
    }
    // A byte-level model accepts invalid UTF-8.
    return json_text(json);
  }

  static constexpr std::size_t kMaxBatchBytes = std::size_t{1} << 20;

  const PredictArguments& arguments_;
  train::Run run_;
  std::vector<Question> questions_;
  std::size_t num_bytes_ = 0;  // of the texts of questions_
  int64_t num_texts_ = 0;
  int64_t num_truncated_ = 0;
  int64_t num_unknown_ = 0;
};

void predict_tokens(const PredictArguments& arguments, train::Run run) {
  const auto type = run.recipe.data.problem_type;
  if (arguments.threshold) {
    refuse_without_effect("--threshold",
                          fmt::format("on a model whose problem_type is {}", to_string(type)));
  }
  constexpr int64_t kTopTokens = 5;
  const bool is_masked_lm = type == train::ProblemType::masked_lm;
  TokenPredictor predictor(run,
                           {.top = is_masked_lm && !arguments.has_top ? kTopTokens : arguments.top,
                            .json = arguments.json});
  arguments.texts.for_each([&](const std::string& text, const std::string& place) {
    with_source(place, [&] { predictor.predict(text); });
  });
  predictor.print_unusual();
}

void run_predict(const PredictArguments& arguments) {
  auto run = load_classifier(arguments);
  if (std::get<SequenceClassifier>(run.model)->config.predicts_tokens())
    return predict_tokens(arguments, std::move(run));
  const std::size_t batch_size = arguments.texts.are_in_a_file() ? 1024 : 1;
  Predictor predictor(arguments, std::move(run));
  try {
    arguments.texts.for_each([&](const std::string& text, const std::string& place) {
      predictor.add(text, place, batch_size);
    });
  } catch (const InputError&) {
    predictor.print_predictions();  // those of the lines before
    throw;
  }
  predictor.print_predictions();
  predictor.print_unusual();
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "predict", "Predict the classes of texts, the tags of their words, or masked tokens");
  auto arguments = std::make_shared<PredictArguments>();
  arguments->run.add_to(*command);
  arguments->texts.add_to(*command, "run", "texts to classify [lines of standard input]");
  arguments->run.add_device_to(*command);
  add_number(
      *command, "--top", arguments->top, kNotNegative,
      "number of classes or labels to print per text, of tags per word or of tokens per mask, "
      "most probable first; 0 = all; without this option, all labels of at least --threshold "
      "are printed, and 5 tokens",
      "CLASSES")
      ->group("Output");
  const auto set_threshold = [target = &arguments->threshold](const std::string& text) {
    const auto value = parse_number<double>("--threshold", text);
    if (!kFraction.holds(value)) {
      throw CLI::ValidationError("--threshold",
                                 fmt::format("must {}, found {}", kFraction.text, text));
    }
    *target = value;
  };
  command
      ->add_option_function<std::string>(
          "--threshold", set_threshold,
          "multi-label: smallest probability of the labels to print [that of the run]")
      ->type_name("PROBABILITY")
      ->group("Output");
  command
      ->add_flag(
          "--json", arguments->json,
          "print one JSON object per text, on one line: text, truncated (true if it has more "
          "than max_seq_len tokens), unknown (true if it contains no token of the vocabulary), "
          "predictions (class, probability from 0 to 1) or, of a regression, prediction (the "
          "number); of a token classifier: text, truncated, words (word, predictions with tag and "
          "probability) and entities (type, text, begin and end as indices of words); of a masked "
          "language model: text, truncated, masks (predictions with token and probability)")
      ->group("Output");
  command->footer(
      "Prints a line for each text: class and probability, separated by tabs; of a multi-label\n"
      "model, all labels of at least --threshold, or an empty line; of a regression, the number. "
      "A\n"
      "token classifier prints a line for each word, between spaces: word, tag and probability, "
      "and\n"
      "an empty line after each text. A masked language model prints a line for each [MASK]: the "
      "most\n"
      "probable tokens and their probabilities. A text with more than\n"
      "max_seq_len tokens is truncated, as in training. At the end, the numbers of these texts "
      "and of\n"
      "texts that contain no token of the vocabulary are printed to standard error.\n\n"
      "Examples:\n"
      "  attend predict runs/brackets \"([])\" \"([)]\"\n"
      "  attend predict runs/lines --file lines.txt --top 3\n"
      "  attend predict runs/lines --json < lines.txt\n"
      "  attend predict runs/entities \"Ada Lovelace lived in London .\"\n"
      "  attend predict runs/masked \"the [MASK] sat on the mat\"");
  command->callback([=] {
    arguments->has_top = command->count("--top") > 0;
    run_predict(*arguments);
  });
}

}  // namespace attend::app
