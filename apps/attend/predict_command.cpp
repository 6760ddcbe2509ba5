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

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace attend::app {
namespace {

struct PredictArguments {
  RunOption run;
  TextsOption texts;
  int64_t top = 1;  ///< number of classes per text; 0 = all
  bool json = false;
};

struct Prediction {
  std::string name;  ///< of the class
  double probability;
};

/// A text of which the classes are not predicted yet.
struct Question {
  std::string text;
  std::vector<int64_t> tokens;
  bool is_truncated;
  bool is_unknown;  ///< true: contains no token of the vocabulary
};

/// Predicts the classes of texts and prints them.
class Predictor {
 public:
  explicit Predictor(const PredictArguments& arguments)
      : arguments_(arguments), run_(arguments.run.load()) {
    if (!std::holds_alternative<SequenceClassifier>(run_.model)) {
      throw InputError(fmt::format(
          "{0}: attend predict requires a sequence_classifier, found a {1}; use attend generate "
          "{0}",
          arguments.run.directory(), model_kind(run_.recipe.model)));
    }
    if (num_classes() == 0) {
      throw InputError(fmt::format("{0}: the model has no classes; use attend embed {0}",
                                   arguments.run.directory()));
    }
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
    const auto probabilities = train::class_probabilities(
        std::get<SequenceClassifier>(run_.model), std::move(texts), run_.recipe.data.truncate);
    std::string lines;
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      const auto predictions = most_probable(probabilities[static_cast<int64_t>(i)]);
      lines += (arguments_.json ? json(questions_[i], predictions) : line(predictions)) + "\n";
    }
    print_now(lines);
    questions_.clear();
    num_bytes_ = 0;
  }

  /// Prints how many texts were truncated or unknown, if any, to standard error.
  void print_unusual() const {
    if (num_truncated_ > 0) {
      write_error(
          fmt::format("truncated {}\n", truncation_text(num_truncated_, num_texts_, run_.recipe)));
    }
    if (num_unknown_ > 0)
      write_error(fmt::format("unknown {}\n", unknown_text(num_unknown_, num_texts_)));
  }

 private:
  int64_t num_classes() const { return std::ssize(run_.classes); }

  Question question(const std::string& text) {
    auto tokens = changing_unknown_token(&UnknownTokenError::without_place, [&] {
      return with_options_of_task(run_.recipe.task,
                                  [&] { return train::encode_prompt(*run_.tokenizer, text); });
    });
    const bool is_truncated = std::ssize(tokens) > run_.recipe.max_seq_len();
    const bool is_unknown = all_unknown(*run_.tokenizer, tokens);
    ++num_texts_;
    num_truncated_ += is_truncated;
    num_unknown_ += is_unknown;
    return {text, std::move(tokens), is_truncated, is_unknown};
  }

  /// Returns the most probable classes, by descending probability. `probabilities`: (C)
  std::vector<Prediction> most_probable(const torch::Tensor& probabilities) const {
    const auto* values = probabilities.const_data_ptr<float>();
    std::vector<std::size_t> order(run_.classes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](auto i) { return values[i]; });
    if (arguments_.top != 0)
      order.resize(static_cast<std::size_t>(std::min(arguments_.top, num_classes())));
    std::vector<Prediction> predictions;
    for (const auto i : order) predictions.push_back({run_.classes.at(i), values[i]});
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

  static std::string json(const Question& question, const std::vector<Prediction>& predictions) {
    nlohmann::ordered_json json{{"text", question.text},
                                {"truncated", question.is_truncated},
                                {"unknown", question.is_unknown}};
    for (const auto& each : predictions) {
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

void run_predict(const PredictArguments& arguments) {
  const std::size_t batch_size = arguments.texts.are_in_a_file() ? 1024 : 1;
  Predictor predictor(arguments);
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
  auto* command = app.add_subcommand("predict", "Predict the classes of texts with a classifier");
  auto arguments = std::make_shared<PredictArguments>();
  arguments->run.add_to(*command);
  arguments->texts.add_to(*command, "run", "texts to classify [lines of standard input]");
  arguments->run.add_device_to(*command);
  add_number(*command, "--top", arguments->top, kNotNegative,
             "number of classes to print per text, most probable first; 0 = all", "CLASSES")
      ->group("Output");
  command
      ->add_flag(
          "--json", arguments->json,
          "print one JSON object per text, on one line: text, truncated (true if it has more "
          "than max_seq_len tokens), unknown (true if it contains no token of the vocabulary), "
          "predictions (class, probability from 0 to 1)")
      ->group("Output");
  command->footer(
      "Prints a line for each text: class and probability, separated by tabs. A text with more "
      "than\n"
      "max_seq_len tokens is truncated, as in training. At the end, the numbers of these texts "
      "and of\n"
      "texts that contain no token of the vocabulary are printed to standard error.\n\n"
      "Examples:\n"
      "  attend predict runs/brackets \"([])\" \"([)]\"\n"
      "  attend predict runs/lines --file lines.txt --top 3\n"
      "  attend predict runs/lines --json < lines.txt");
  command->callback([=] { run_predict(*arguments); });
}

}  // namespace attend::app
