#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/io/tokenizer.h"
#include "attend/train/confusion_matrix.h"
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
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

namespace attend::app {
namespace {

struct EvalArguments {
  RunOption run;
  std::string file;
  std::string text_column;   ///< empty = that of the run
  std::string label_column;  ///< empty = that of the run
  int64_t max_text_bytes = train::DataConfig{}.max_text_bytes;
  bool json = false;
};

/// Returns the recipe of the run with the columns of the command line. Throws InputError if they
/// have no effect.
train::Recipe with_columns(const EvalArguments& arguments, train::Recipe recipe) {
  const auto& keys = train::find_task(recipe.task).data_keys;
  const bool reads_table = std::ranges::find(keys, "text_column") != keys.end();
  for (const auto& [flag, name, target] :
       {std::tuple("--text-column", &arguments.text_column, &recipe.data.text_column),
        std::tuple("--label-column", &arguments.label_column, &recipe.data.label_column)}) {
    if (name->empty()) continue;
    if (arguments.file.empty()) refuse_without_effect(flag, "without FILE", "pass a table");
    if (!reads_table) {
      refuse_without_effect(
          flag, fmt::format("with the task '{}' of the run, which reads no table", recipe.task));
    }
    *target = *name;
  }
  return recipe;
}

std::vector<train::Batch> evaluation_batches(const EvalArguments& arguments,
                                             const train::Run& run) {
  const Activity activity(kPreparingData);
  const auto recipe = with_columns(arguments, run.recipe);
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
  return !std::holds_alternative<SequenceClassifier>(model);
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
  for (const auto& row : result.confusion_matrix.unbind()) {
    const auto* first = row.const_data_ptr<int64_t>();
    json["confusion_matrix"].push_back(std::vector<int64_t>(first, first + row.numel()));
  }
}

void print_json(const EvalArguments& arguments, const train::Run& run,
                const train::Evaluation& result, int64_t num_truncated, int64_t num_unknown) {
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
  if (!run.classes.empty()) {
    json["truncated"] = num_truncated;
    json["unknown"] = num_unknown;
    add_class_metrics(result, run.classes, json);
  }
  fmt::print("{}\n", json_text(json));
}

/// Prints the perplexity of a published language model on a file.
void print_evaluation(const EvalArguments& arguments, Pretrained pretrained) {
  constexpr int64_t kMaxContext = 1024;  // a longer one needs much memory for the logits
  for (const auto& [flag, name] : {std::pair("--text-column", &arguments.text_column),
                                   std::pair("--label-column", &arguments.label_column)}) {
    if (!name->empty()) refuse_without_effect(flag, "on a published model");
  }
  const auto& directory = arguments.run.directory();
  const auto& model =
      model_as<LanguageModel>(pretrained.model, fmt::format("{}: attend eval", directory));
  if (arguments.file.empty())
    throw InputError(
        fmt::format("{}: a published model has no validation data: pass FILE", directory));
  const auto context = std::min(kMaxContext, model->config.max_seq_len);
  const auto text = read_text(arguments.file, text_limit(arguments.max_text_bytes));
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
  const auto batches = evaluation_batches(arguments, run);
  const auto num_truncated = count_truncated(batches);
  const auto num_unknown = run.classes.empty() ? 0 : count_unknown(batches, *run.tokenizer);
  const auto result = evaluate(run, batches);
  if (arguments.json) return print_json(arguments, run, result, num_truncated, num_unknown);
  const auto source = arguments.file.empty() ? "" : " of " + arguments.file;
  fmt::print("val loss    {:.4f} ({}{})\n", result.loss, targets_text(result, run.model), source);
  if (has_perplexity(run.model)) fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
  if (result.accuracy()) fmt::print("accuracy    {}\n", accuracy_text(result.exact_match));
  if (num_truncated > 0) {
    fmt::print("truncated   {}\n", truncation_text(num_truncated, result.num_targets, run.recipe));
  }
  if (num_unknown > 0)
    fmt::print("unknown     {}\n", unknown_text(num_unknown, result.num_targets));
  if (!run.classes.empty()) {
    const auto width = output_is_terminal()
                           ? static_cast<std::size_t>(terminal_width(STDOUT_FILENO))
                           : std::numeric_limits<std::size_t>::max();
    fmt::print("\n{}", class_metrics_text(result.confusion_matrix, run.classes, width));
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
  const auto add_column = [&](const char* flag, std::string& target, const char* help) {
    command->add_option(flag, target, help)->type_name("NAME")->check([](const std::string& name) {
      return name.empty() ? "must not be empty" : "";
    });
  };
  add_column("--text-column", arguments->text_column,
             "column of the texts if FILE is a table [that of the run]");
  add_column("--label-column", arguments->label_column,
             "column of the labels if FILE is a table [that of the run]");
  add_number(*command, "--max-text-bytes", arguments->max_text_bytes, kPositive,
             "maximum size of each file of texts", "BYTES");
  arguments->run.add_device_to(*command);
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: run, task, recipe (its name), file, num_layers, overrides "
                 "(values that differ from the defaults of the task), val_loss, perplexity, "
                 "val_targets (number of tokens, or of sequences for a classifier), val_accuracy "
                 "(0 to 1); for a classifier also truncated (number of texts with more than "
                 "max_seq_len tokens), classes (class, precision, recall, f1, support) and "
                 "confusion_matrix (row = true class, column = predicted class); for a published "
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
