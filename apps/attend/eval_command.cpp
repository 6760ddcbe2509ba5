#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/tokenizer.h"
#include "attend/train/answer_lengths.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/entities.h"
#include "attend/train/regression_metrics.h"
#include "attend/train/task_objective.h"
#include "attend/train/text_windows.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "recipes/overrides.h"
#include "runs/evaluation_text.h"
#include "runs/run_option.h"
#include "runs/run_overview.h"
#include "terminal/activity.h"
#include "terminal/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace attend::app {
namespace {

/// An option that names a column of FILE.
struct ColumnOption {
  const char* flag;
  const char* key;  ///< of recipes
  std::string train::DataConfig::*name;
  const char* help;
};

constexpr ColumnOption kColumnOptions[]{
    {"--text-column", "text_column", &train::DataConfig::text_column,
     "column of the texts if FILE is a table [that of the run]"},
    {"--label-column", "label_column", &train::DataConfig::label_column,
     "column of the labels if FILE is a table [that of the run]"},
    {"--prompt-column", "prompt_column", &train::DataConfig::prompt_column,
     "column of the prompts if FILE is a table [that of the run]"},
    {"--answer-column", "answer_column", &train::DataConfig::answer_column,
     "column of the answers if FILE is a table [that of the run]"},
    {"--messages-column", "messages_column", &train::DataConfig::messages_column,
     "column of the chats if FILE is a .jsonl file [that of the run]"}};

struct EvalArguments {
  RunOption run;
  std::string file;
  /// Values of `kColumnOptions`; empty = that of the run.
  std::array<std::string, std::size(kColumnOptions)> columns;
  int64_t max_text_bytes = train::DataConfig{}.max_text_bytes;
  double threshold = -1.0;             ///< negative = that of the run
  bool keep_carriage_returns = false;  ///< also if the run was trained without them
  bool json = false;
};

/// Returns the recipe of the run with the options of the command line about FILE. Throws InputError
/// if they have no effect.
train::Recipe with_file_options(const EvalArguments& arguments, train::Recipe recipe) {
  const auto& keys = train::find_task(recipe.task).data_keys;
  for (std::size_t i = 0; i < arguments.columns.size(); ++i) {
    const auto& option = kColumnOptions[i];
    const auto& name = arguments.columns[i];
    if (name.empty()) continue;
    if (arguments.file.empty()) refuse_without_effect(option.flag, "without FILE", "pass a table");
    if (std::ranges::find(keys, std::string_view(option.key)) == keys.end()) {
      refuse_without_effect(
          option.flag,
          fmt::format("with the task '{}' of the run, which reads no such column", recipe.task));
    }
    recipe.data.*option.name = name;
  }
  if (arguments.keep_carriage_returns) {
    if (arguments.file.empty())
      refuse_without_effect("--keep-carriage-returns", "without FILE", "pass a file");
    recipe.data.keep_carriage_returns = true;
  }
  return recipe;
}

std::vector<train::Batch> evaluation_batches(const EvalArguments& arguments,
                                             const train::Run& run) {
  const Activity activity(kPreparingData);
  const auto recipe = with_file_options(arguments, run.recipe);
  if (arguments.file.empty()) {
    train::RunDirectory::open(arguments.run.directory()).check_texts(run.recipe);
    return run.make_task()->validation_batches(train::kEvalBatchSize);
  }
  const auto& task = train::find_task(run.recipe.task);
  if (task.reads_file()) {
    return task.batches_of_file(arguments.file, recipe, *run.tokenizer, run.classes,
                                train::kEvalBatchSize);
  }
  throw InputError(
      fmt::format("{} was trained on the task '{}', which reads no file; omit the argument {}",
                  arguments.run.directory(), run.recipe.task, arguments.file));
}

train::Evaluation evaluate(train::Run& run, const std::vector<train::Batch>& batches) {
  Activity activity("evaluating", "batches");
  return train::evaluate(run.model, batches, run.recipe.training.precision,
                         [&](int64_t done, int64_t count) { activity.show(done, count); });
}

int64_t count_texts(const std::vector<train::Batch>& batches) {
  int64_t count = 0;
  for (const auto& batch : batches) count += batch.tokens.size(0);
  return count;
}

/// Returns the number of texts of which tokens were removed.
int64_t count_truncated(const std::vector<train::Batch>& batches) {
  int64_t count = 0;
  for (const auto& batch : batches) {
    if (batch.is_truncated.defined()) count += batch.is_truncated.sum().item<int64_t>();
  }
  return count;
}

/// Returns the number of texts that contain no token of the vocabulary.
int64_t count_unknown(const std::vector<train::Batch>& batches, const Tokenizer& tokenizer) {
  int64_t count = 0;
  for (const auto& batch : batches) {
    for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
      const auto text = batch.tokens[row].masked_select(batch.key_mask[row]);  // (T)
      const auto* ids = text.const_data_ptr<int64_t>();
      count += all_unknown(tokenizer, {ids, ids + text.numel()});
    }
  }
  return count;
}

/// Perplexity is defined for models that predict tokens.
bool has_perplexity(const Model& model) {
  const auto* classifier = std::get_if<SequenceClassifier>(&model);
  return classifier == nullptr || (*classifier)->config.masked_lm;
}

bool measures_entities(const train::Run& run) {
  return has_entities(run.classes, run.recipe.data.problem_type);
}

/// Returns the names in the table of metrics: the types of entities, or the classes.
std::vector<std::string> measured_classes(const train::Run& run) {
  return measures_entities(run) ? train::entity_types(run.classes) : run.classes;
}

void add_regression_metrics(const torch::Tensor& moments, nlohmann::ordered_json& json) {
  const auto metrics = train::regression_metrics(moments);
  json.update({{"mae", metrics.mae}, {"r2", metrics.r2}, {"pearson", metrics.pearson}});
}

void add_class_metrics(const train::Evaluation& result, const std::vector<std::string>& classes,
                       nlohmann::ordered_json& json) {
  const auto metrics = train::class_metrics(result.confusion_matrix);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto& each = metrics.at(i);
    json["classes"].push_back({{"class", classes[i]},
                               {"precision", each.precision},
                               {"recall", each.recall},
                               {"f1", each.f1},
                               {"support", each.support}});
  }
  const bool is_multi_label = result.confusion_matrix.dim() == 3;
  if (is_multi_label) json["micro_f1"] = train::micro_f1(result.confusion_matrix);
  for (const auto& row : result.confusion_matrix.unbind()) {
    if (is_multi_label) break;
    const auto* first = row.const_data_ptr<int64_t>();
    json["confusion_matrix"].push_back(std::vector<int64_t>(first, first + row.numel()));
  }
}

/// Returns the lengths of the prompts and answers in FILE; std::nullopt without FILE, or if it
/// contains others.
std::optional<train::AnswerLengths> lengths_of(const EvalArguments& arguments,
                                               const train::Run& run) {
  const auto& keys = train::find_task(run.recipe.task).data_keys;
  if (arguments.file.empty() || std::ranges::find(keys, "answer_column") == keys.end())
    return std::nullopt;
  return train::answer_lengths(arguments.file, with_file_options(arguments, run.recipe),
                               *run.tokenizer);
}

void print_json(const EvalArguments& arguments, const train::Run& run,
                const train::Evaluation& result, int64_t num_truncated, int64_t num_unknown,
                const std::optional<train::AnswerLengths>& lengths) {
  nlohmann::ordered_json json{{"run", name_of_run(arguments.run.directory())},
                              {"task", run.recipe.task},
                              {"recipe", nullptr}};
  if (!run.recipe.name.empty()) json["recipe"] = run.recipe.name;
  if (!arguments.file.empty()) json["file"] = arguments.file;
  json["num_layers"] = run.recipe.stack().num_layers;
  json["overrides"] = overrides_of(run.recipe, train::find_task(run.recipe.task).defaults);
  json["val_loss"] = result.loss;
  if (has_perplexity(run.model)) json["perplexity"] = std::exp(result.loss);
  json["val_targets"] = result.num_targets;
  if (const auto accuracy = result.accuracy()) json["val_accuracy"] = *accuracy;
  if (lengths) json.update({{"truncated", lengths->truncated}, {"left_out", lengths->left_out}});
  if (!run.classes.empty()) {
    json["truncated"] = num_truncated;
    json["unknown"] = num_unknown;
    if (result.f1) json["macro_f1"] = train::macro_f1(result.confusion_matrix);
    if (result.moments.defined())
      add_regression_metrics(result.moments, json);
    else
      add_class_metrics(result, measured_classes(run), json);
  }
  fmt::print("{}\n", json_text(json));
}

/// Prints the perplexity of a published language model on a file.
void print_evaluation(const EvalArguments& arguments, Pretrained pretrained) {
  constexpr int64_t kMaxContext = 1024;  // a longer one needs much memory for the logits
  if (arguments.threshold >= 0.0) refuse_without_effect("--threshold", "on a published model");
  for (std::size_t i = 0; i < arguments.columns.size(); ++i) {
    if (!arguments.columns[i].empty())
      refuse_without_effect(kColumnOptions[i].flag, "on a published model");
  }
  const auto& directory = arguments.run.directory();
  const auto& model =
      model_as<LanguageModel>(pretrained.model, fmt::format("{}: attend eval", directory));
  if (arguments.file.empty())
    throw InputError(
        fmt::format("{}: a published model has no validation data: pass FILE", directory));
  const auto context = std::min(kMaxContext, model->config.max_seq_len);
  train::DataConfig data;
  data.keep_carriage_returns = arguments.keep_carriage_returns;
  const auto text = train::with_line_breaks(
      read_text(arguments.file, text_limit(arguments.max_text_bytes)), data);
  const auto tokens = torch::tensor(
      with_source(arguments.file, [&] { return pretrained.tokenize(text); }), torch::kLong);
  const auto batches =
      with_source(arguments.file, [&] { return train::text_windows(tokens, context, /*size=*/1); });
  Activity activity("evaluating", "windows");
  const auto result =
      train::evaluate(pretrained.model, batches, train::Precision::fp32,
                      [&](int64_t done, int64_t count) { activity.show(done, count); });
  if (arguments.json) {
    const nlohmann::ordered_json json{{"model", directory},
                                      {"file", arguments.file},
                                      {"context", context},
                                      {"val_loss", result.loss},
                                      {"perplexity", std::exp(result.loss)},
                                      {"val_targets", result.num_targets}};
    fmt::print("{}\n", json_text(json));
    return;
  }
  fmt::print("val loss    {:.4f} ({} of {}, in windows of {} tokens)\n", result.loss,
             targets_text(result, pretrained.model), arguments.file, context);
  fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
}

/// Prints the results of a run on its validation data or on a file.
void print_evaluation(const EvalArguments& arguments, train::Run run) {
  run.recipe.data.max_text_bytes = arguments.max_text_bytes;
  run.recipe.data.on_tokenized = show_tokenized;
  if (arguments.threshold >= 0.0) {
    if (run.recipe.data.problem_type != train::ProblemType::multi_label_classification) {
      refuse_without_effect("--threshold", fmt::format("on a model whose problem_type is {}",
                                                       to_string(run.recipe.data.problem_type)));
    }
    run.recipe.data.threshold = arguments.threshold;
  }
  const auto batches = evaluation_batches(arguments, run);
  const auto num_truncated = count_truncated(batches);
  const auto num_unknown = run.classes.empty() ? 0 : count_unknown(batches, *run.tokenizer);
  const auto result = evaluate(run, batches);
  const auto lengths = lengths_of(arguments, run);
  if (arguments.json)
    return print_json(arguments, run, result, num_truncated, num_unknown, lengths);
  const auto source = arguments.file.empty() ? "" : " of " + arguments.file;
  fmt::print("val loss    {:.4f} ({}{})\n", result.loss, targets_text(result, run.model), source);
  if (has_perplexity(run.model)) fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
  if (result.accuracy())
    fmt::print("accuracy    {}\n", accuracy_text(result.exact_match, run.model));
  const auto& matrix = result.confusion_matrix;
  if (matrix.defined() && matrix.dim() == 3 && !measures_entities(run))
    fmt::print("micro f1    {:.4f}\n", train::micro_f1(matrix));
  if (result.f1) {
    fmt::print("{:<11} {:.4f}\n", f1_name(run.classes, run.recipe.data.problem_type), *result.f1);
  }
  if (result.moments.defined()) {
    const auto metrics = train::regression_metrics(result.moments);
    fmt::print("mae         {:.4f}\nr2          {:.4f}\npearson     {:.4f}\n", metrics.mae,
               metrics.r2, metrics.pearson);
  }
  if (num_truncated > 0) {
    fmt::print("truncated   {}\n", truncation_text(num_truncated, count_texts(batches), run));
  }
  if (lengths && !lengths->all_fit())
    fmt::print("truncated   {}\n", lengths->text(run.recipe.max_seq_len()));
  if (num_unknown > 0)
    fmt::print("unknown     {}\n", unknown_text(num_unknown, count_texts(batches)));
  if (matrix.defined()) {
    const auto width = output_is_terminal()
                           ? static_cast<std::size_t>(terminal_width(STDOUT_FILENO))
                           : std::numeric_limits<std::size_t>::max();
    fmt::print("\n{}", class_metrics_text(matrix, measured_classes(run), width));
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("eval", "Evaluate a model on the validation data of its run or on a file");
  auto arguments = std::make_shared<EvalArguments>();
  arguments->run.add_to(*command, "run", kRunOrPretrained);
  command
      ->add_option(
          "file", arguments->file,
          "text or table to evaluate on; the whole file is used [the run's validation data]")
      ->type_name("FILE");
  for (std::size_t i = 0; i < arguments->columns.size(); ++i) {
    const auto& option = kColumnOptions[i];
    command->add_option(option.flag, arguments->columns[i], option.help)
        ->type_name("NAME")
        ->check([](const std::string& name) { return name.empty() ? "must not be empty" : ""; });
  }
  add_number(
      *command, "--max-text-bytes", arguments->max_text_bytes, kPositive,
      "maximum size of a text that is read into memory; a larger one is tokenized to a file in "
      "the run's --token-dir, and a larger table is refused",
      "BYTES");
  add_number(*command, "--threshold", arguments->threshold, kFraction,
             "multi-label: smallest probability of a predicted label [that of the run]",
             "PROBABILITY")
      ->default_str("");
  command->add_flag("--keep-carriage-returns", arguments->keep_carriage_returns,
                    "keep the line breaks CR LF of FILE instead of reading them as LF, as the run "
                    "does if it was trained with this option");
  arguments->run.add_device_to(*command);
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: run, task, recipe (its name), file, num_layers, overrides "
                 "(values that differ from the defaults of the task), val_loss, perplexity, "
                 "val_targets (number of tokens, or of sequences for a classifier), val_accuracy "
                 "(0 to 1); for a classifier also macro_f1 (mean F1 of the classes or entities), "
                 "micro_f1 (of several labels or entities), truncated (number of texts with more "
                 "than "
                 "max_seq_len tokens), unknown (number of texts that contain no token of the "
                 "vocabulary), classes (class, precision, recall, f1, support) and, without "
                 "micro_f1, confusion_matrix (row = true class, column = predicted class); "
                 "for numbers mae, r2 and pearson instead of these; for a table of "
                 "answers truncated and left_out (number of prompts without room for an answer in "
                 "max_seq_len tokens); for a published "
                 "model: model, file, context (tokens in a window), val_loss, perplexity, "
                 "val_targets")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend eval runs/first\n"
      "  attend eval runs/first --weights last\n"
      "  attend eval runs/text other.txt --json\n"
      "  attend eval gpt2 other.txt");
  command->callback([=] {
    std::visit([&](auto model) { print_evaluation(*arguments, std::move(model)); },
               arguments->run.load_run_or_pretrained());
  });
}

}  // namespace attend::app
