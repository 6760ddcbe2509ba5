#include "attend/input_error.h"
#include "attend/train/learning_rate_search.h"
#include "attend/train/task_objective.h"
#include "attend/train/training_run.h"
#include "commands.h"
#include "number_option.h"
#include "recipe_flags.h"
#include "recipe_folder.h"
#include "stop_signal.h"
#include "stopped.h"
#include "terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace attend::app {
namespace {

struct LrFindArguments {
  std::string recipe;
  train::LearningRateRange range;
  bool json = false;
};

train::LearningRateSearch search(const train::Recipe& recipe,
                                 const train::LearningRateRange& range) {
  const auto setup = train::make_training_setup(recipe);
  const StopSignal stop;
  auto found = train::search_learning_rate(
      std::make_shared<train::TaskObjective>(setup.model, *setup.task, recipe.training),
      recipe.training, range, [] { return StopSignal::received() != 0; });
  if (StopSignal::received() != 0) {
    write_error(fmt::format("stopped after {} of {} trials\n", found.trials.size(), range.steps));
    throw Stopped(StopSignal::received());
  }
  return found;
}

void print_json(const train::LearningRateSearch& found) {
  nlohmann::ordered_json json{{"suggestion", nullptr}};
  if (found.suggestion) json["suggestion"] = *found.suggestion;
  json["trials"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.trials.size(); ++i) {
    json["trials"].push_back({{"lr", found.trials[i].lr},
                              {"loss", found.trials[i].loss},
                              {"smoothed", found.smoothed[i]}});
  }
  fmt::print("{}\n", json.dump());
}

/// The smoothed losses as a chart that lies on its side, a line for every few trials.
void print_chart(const train::LearningRateSearch& found) {
  constexpr std::size_t kLines = 25;
  constexpr double kWidth = 50.0;
  const auto every = (found.trials.size() + kLines - 1) / kLines;
  const double highest = *std::max_element(found.smoothed.begin(), found.smoothed.end());
  fmt::print("{:>10}  {:>9}\n", "lr", "loss");
  for (std::size_t i = 0; i < found.trials.size(); i += every) {
    const auto width = static_cast<std::size_t>(kWidth * found.smoothed[i] / highest);
    fmt::print("{:>10.2g}  {:>9.4f}  {:#<{}}\n", found.trials[i].lr, found.smoothed[i], "", width);
  }
}

void run_lr_find(const LrFindArguments& arguments, const RecipeFlags& flags) {
  const auto recipe = flags.resolve(arguments.recipe);
  const auto& range = arguments.range;
  if (range.min_lr >= range.max_lr) {
    throw InputError(
        fmt::format("--lowest ({}) must be below --highest ({})", range.min_lr, range.max_lr));
  }
  const auto found = search(recipe, range);
  if (arguments.json) return print_json(found);
  if (!found.trials.empty()) print_chart(found);
  if (found.suggestion) {
    fmt::print("\nsuggested  --lr {:.2g}: there the loss falls fastest\n", *found.suggestion);
  } else {
    fmt::print(
        "\nno suggestion: in {} trials the loss did not fall by a tenth; more --trials may "
        "help\n",
        found.trials.size());
  }
}

}  // namespace

void add_lr_find_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "lr-find", "Suggest a learning rate: train a little while it rises, watching the loss");
  auto arguments = std::make_shared<LrFindArguments>();
  command->add_option("recipe", arguments->recipe, "TOML file, or a name that attend models lists")
      ->type_name(kRecipeType);
  const auto in_group = [](CLI::Option* option) { option->group("Search"); };
  in_group(add_number(*command, "--lowest", arguments->range.min_lr, kPositive,
                      "learning rate to begin with"));
  in_group(add_number(*command, "--highest", arguments->range.max_lr, kPositive,
                      "learning rate to end with, unless the loss leaves its lowest before"));
  in_group(add_number(*command, "--trials", arguments->range.steps, kAtLeastTwo,
                      "steps, each at a learning rate of its own, in equal ratios", "TRIALS"));
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: suggestion (null if there is none), trials (lr, loss in "
                 "nats a target, and the loss smoothed)")
      ->group("Output");
  auto flags = std::make_shared<RecipeFlags>(*command);
  command->footer(
      "Takes what attend train takes; --max-steps, --lr and the other flags of the schedule do "
      "not\n"
      "count. Nothing is written.\n\n"
      "Examples:\n"
      "  attend lr-find --task sort\n"
      "  attend lr-find --text book.txt --num-layers 6 --json");
  command->callback([=] { run_lr_find(*arguments, *flags); });
}

}  // namespace attend::app
