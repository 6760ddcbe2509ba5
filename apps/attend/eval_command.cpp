#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/evaluation.h"
#include "attend/train/run.h"
#include "commands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>

namespace attend::app {
namespace {

struct EvalArguments {
  std::string run;
  std::string file;
  bool json = false;
};

/// A text of which nothing is learned: all of it is held out.
class HeldOutText : public train::Task {
 public:
  HeldOutText(const std::string& file, const train::Run& run)
      : vocabulary_(run.tokenizer), context_(run.recipe.context()) {
    const auto text = read_text(file);
    try {
      tokens_ = torch::tensor(vocabulary_.encode(text), torch::kLong);  // (N)
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", file, error.what()));
    }
    if (tokens_.size(0) < 2) {
      throw InputError(
          fmt::format("{}: expected at least two tokens, found {}", file, tokens_.size(0)));
    }
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  train::Batch training_batch(int64_t, train::Sampler&) const override { return {}; }

  /// Windows that do not overlap, as of the part of a text that `TextTask` holds out.
  std::vector<train::Batch> validation_batches(int64_t size) const override {
    const auto predicted = tokens_.size(0) - 1;
    const auto whole = predicted / context_ * context_;
    std::vector<train::Batch> batches;
    for (int64_t begin = 0; begin < predicted;) {
      const auto end = begin < whole ? std::min(begin + size * context_, whole) : predicted;
      const auto rows = [&](int64_t shift) {
        const auto part = tokens_.slice(0, begin + shift, end + shift);
        return part.view({-1, std::min(context_, end - begin)});  // (B, T)
      };
      batches.push_back({rows(0), rows(1)});
      begin = end;
    }
    return batches;
  }

 private:
  const Vocabulary& vocabulary_;
  int64_t context_;
  torch::Tensor tokens_;
};

std::unique_ptr<train::Task> held_out(const EvalArguments& arguments, const train::Run& run) {
  if (arguments.file.empty()) return train::task_of(run);
  if (train::find_task(run.recipe.task).reads_text) {
    return std::make_unique<HeldOutText>(arguments.file, run);
  }
  throw InputError(
      fmt::format("{} has learned the task {}, which is no text: it cannot be measured "
                  "on {}",
                  arguments.run, run.recipe.task, arguments.file));
}

void print_json(const EvalArguments& arguments, const train::Recipe& recipe,
                const train::Evaluation& result) {
  nlohmann::ordered_json json{{"task", recipe.task}};
  if (!arguments.file.empty()) json["file"] = arguments.file;
  json["layers"] = recipe.stack().layers;
  json["val_loss"] = result.loss;
  json["perplexity"] = std::exp(result.loss);
  json["tokens"] = result.tokens;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  fmt::print("{}\n", json.dump());
}

void run_eval(const EvalArguments& arguments) {
  auto run = train::load_run(arguments.run);
  const auto task = held_out(arguments, run);
  const auto result = train::evaluate(run.model, *task);
  if (arguments.json) return print_json(arguments, run.recipe, result);
  fmt::print("val loss    {:.4f} nats a token, on {} held-out tokens\n", result.loss,
             result.tokens);
  fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
  if (result.accuracy) fmt::print("accuracy    {:.1f} %\n", *result.accuracy * 100);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("eval", "Measure a trained model on its held-out data or on a text");
  auto arguments = std::make_shared<EvalArguments>();
  command->add_option("run", arguments->run, "run directory")->required()->type_name("DIR");
  command
      ->add_option("file", arguments->file,
                   "file to measure on, all of it, of the kind that the run has learned; without "
                   "it: what the run has held out")
      ->type_name("FILE");
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: task, file if one is given, layers, val_loss (nats a "
                 "token), perplexity, tokens, accuracy (0 to 1) if the task has answers")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend eval runs/first\n"
      "  attend eval runs/text other.txt --json");
  command->callback([=] { run_eval(*arguments); });
}

}  // namespace attend::app
