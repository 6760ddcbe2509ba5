#include "attend/train/evaluation.h"
#include "attend/train/run.h"
#include "commands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>

namespace attend::app {
namespace {

struct EvalArguments {
  std::string run;
  bool json = false;
};

void run_eval(const EvalArguments& arguments) {
  auto run = train::load_run(arguments.run);
  const auto task = train::task_of(run);
  const auto result = train::evaluate(run.model, *task);
  if (arguments.json) {
    nlohmann::ordered_json json{{"task", run.recipe.task},
                                {"layers", run.recipe.stack().layers},
                                {"val_loss", result.loss},
                                {"tokens", result.tokens}};
    if (result.accuracy) json["accuracy"] = *result.accuracy;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("val loss    {:.4f} nats a token, on {} held-out tokens\n", result.loss,
             result.tokens);
  fmt::print("perplexity  {:.3f}\n", std::exp(result.loss));
  if (result.accuracy) fmt::print("accuracy    {:.1f} %\n", *result.accuracy * 100);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command = app.add_subcommand("eval", "Measure a trained model on its held-out data");
  auto arguments = std::make_shared<EvalArguments>();
  command->add_option("run", arguments->run, "run directory")->required()->type_name("DIR");
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->footer(
      "Examples:\n"
      "  attend eval runs/first\n"
      "  attend eval runs/first --json");
  command->callback([=] { run_eval(*arguments); });
}

}  // namespace attend::app
