#include "attend/input_error.h"
#include "attend/train/evaluation.h"
#include "commands.h"
#include "run_option.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>

namespace attend::app {
namespace {

struct EvalArguments {
  RunOption run;
  std::string file;
  bool json = false;
};

std::vector<train::Batch> batches_to_measure(const EvalArguments& arguments,
                                             const train::Run& run) {
  if (arguments.file.empty()) {
    return run.make_task()->validation_batches(train::kRowsAtOnce);
  }
  const auto& task = train::find_task(run.recipe.task);
  if (task.reads_file()) {
    return task.batches_of_file(arguments.file, run.recipe, *run.tokenizer, run.classes,
                                train::kRowsAtOnce);
  }
  throw InputError(
      fmt::format("{} has learned the task {}, which reads no file: it cannot be measured "
                  "on {}",
                  arguments.run.directory(), run.recipe.task, arguments.file));
}

void print_json(const EvalArguments& arguments, const train::Recipe& recipe,
                const train::Evaluation& result) {
  nlohmann::ordered_json json{{"task", recipe.task}};
  if (!arguments.file.empty()) json["file"] = arguments.file;
  json["layers"] = recipe.stack().num_layers;
  json["val_loss"] = result.loss;
  json["perplexity"] = std::exp(result.loss);
  json["targets"] = result.targets;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  fmt::print("{}\n", json.dump());
}

void run_eval(const EvalArguments& arguments) {
  auto run = arguments.run.load();
  const auto result = train::evaluate(run.model, batches_to_measure(arguments, run));
  if (arguments.json) return print_json(arguments, run.recipe, result);
  const auto targets = arguments.file.empty()
                           ? fmt::format("{} held-out targets", result.targets)
                           : fmt::format("{} targets of {}", result.targets, arguments.file);
  fmt::print("val loss    {:.4f} nats a target, on {}\n", result.loss, targets);
  fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
  if (result.accuracy) fmt::print("accuracy    {:.1f} %\n", *result.accuracy * 100);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("eval", "Measure a trained model on its held-out data or on a text");
  auto arguments = std::make_shared<EvalArguments>();
  arguments->run.add_to(*command);
  command
      ->add_option("file", arguments->file,
                   "file to measure on (whole), of the kind the run was trained on; default: the "
                   "run's held-out data")
      ->type_name("FILE");
  arguments->run.add_device_to(*command);
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: task, file if one is given, layers, val_loss (nats a "
                 "target), perplexity, targets, accuracy (0 to 1) if the task has answers")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend eval runs/first\n"
      "  attend eval runs/first --weights last\n"
      "  attend eval runs/text other.txt --json");
  command->callback([=] { run_eval(*arguments); });
}

}  // namespace attend::app
