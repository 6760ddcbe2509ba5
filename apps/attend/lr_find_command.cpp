#include "attend/input_error.h"
#include "attend/train/device.h"
#include "attend/train/learning_rate_search.h"
#include "attend/train/task_objective.h"
#include "attend/train/training_setup.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "recipes/recipe_files.h"
#include "recipes/recipe_flags.h"
#include "terminal/activity.h"

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
  train::set_num_threads(recipe.training.threads);
  const auto setup = [&] {
    const Activity activity(kPreparingData);
    return train::make_training_setup(recipe);
  }();
  // A signal ends the process at once, also within a long step: there is nothing to save.
  Activity activity("trying learning rates", "steps");
  int64_t done = 0;
  return train::search_learning_rate(
      std::make_shared<train::TaskObjective>(setup.model, setup.task, recipe.training),
      recipe.training, range, [&] {
        activity.show(++done, range.num_steps);
        return false;
      });
}

void print_json(const train::LearningRateSearch& found) {
  nlohmann::ordered_json json{{"suggestion", nullptr}};
  if (found.suggestion) json["suggestion"] = *found.suggestion;
  json["steps"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.steps.size(); ++i) {
    json["steps"].push_back({{"lr", found.steps[i].lr},
                             {"loss", found.steps[i].loss},
                             {"smoothed_loss", found.smoothed[i]}});
  }
  fmt::print("{}\n", json_text(json));
}

/// Prints the smoothed loss as a bar chart: a header line, and a line for each of at most 25 bars.
void print_chart(const train::LearningRateSearch& found) {
  constexpr std::size_t kLines = 25;
  constexpr double kWidth = 50.0;
  const auto every = (found.steps.size() + kLines - 1) / kLines;
  const double highest = *std::max_element(found.smoothed.begin(), found.smoothed.end());
  fmt::print("{:>10}  {:>9}\n", "lr", "loss");
  for (std::size_t i = 0; i < found.steps.size(); i += every) {
    const auto width = static_cast<std::size_t>(kWidth * found.smoothed[i] / highest);
    fmt::print("{:>10.2g}  {:>9.4f}  {:#<{}}\n", found.steps[i].lr, found.smoothed[i], "", width);
  }
}

/// Throws InputError for a flag of attend train that a learning rate search does not use.
void check_flags(const RecipeFlags& flags) {
  for (const auto* flag :
       {"--max-steps", "--eval-every", "--checkpoint-every", "--log-every", "--patience"}) {
    if (flags.has(flag))
      refuse_without_effect(flag, "in attend lr-find, which takes --num-steps steps");
  }
  for (const auto* flag :
       {"--lr", "--schedule", "--min-lr-ratio", "--warmup-steps", "--cooldown-fraction"}) {
    if (flags.has(flag)) {
      refuse_without_effect(
          flag, "in attend lr-find, which tries the learning rates from --min-lr to --max-lr");
    }
  }
}

void run_lr_find(const LrFindArguments& arguments, const RecipeFlags& flags) {
  check_flags(flags);
  const auto recipe = flags.resolve(read_recipe_argument(arguments.recipe));
  const auto& range = arguments.range;
  if (range.min_lr >= range.max_lr) {
    throw InputError(
        fmt::format("--min-lr ({}) must be less than --max-lr ({})", range.min_lr, range.max_lr));
  }
  const auto found = search(recipe, range);
  if (arguments.json) return print_json(found);
  if (!found.steps.empty()) print_chart(found);
  if (found.suggestion) {
    fmt::print("\nsuggested: --lr {:.2g} (steepest descent of the loss)\n", *found.suggestion);
  } else {
    const auto count = found.steps.size();
    fmt::print("\nno suggestion: {}; try a larger --num-steps\n",
               count < 3
                   ? "at least 3 steps with a finite loss are necessary"
                   : fmt::format("the smoothed loss fell by less than 10% in {} steps", count));
  }
}

}  // namespace

void add_lr_find_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("lr-find", "Suggest a learning rate with a learning rate range test");
  auto arguments = std::make_shared<LrFindArguments>();
  command
      ->add_option("recipe", arguments->recipe,
                   "recipe: TOML file, or a name from the output of `attend models`")
      ->type_name(kRecipeType);
  const auto in_group = [](CLI::Option* option) { option->group("Search"); };
  in_group(add_number(*command, "--min-lr", arguments->range.min_lr, kPositive,
                      "learning rate of the first step"));
  in_group(
      add_number(*command, "--max-lr", arguments->range.max_lr, kPositive,
                 "learning rate of the last step; the search ends earlier if the loss diverges"));
  in_group(add_number(*command, "--num-steps", arguments->range.num_steps, kAtLeastTwo,
                      "number of steps; the learning rate grows geometrically", "STEPS"));
  command
      ->add_flag("--json", arguments->json,
                 "print one JSON object: suggestion (or null), steps (lr, loss, smoothed_loss)")
      ->group("Output");
  auto flags = std::make_shared<RecipeFlags>(*command);
  command->footer(
      "Accepts the options of attend train for recipe values, except --max-steps, --lr and the\n"
      "other options of the learning rate schedule, evaluations, checkpoints and reports. Writes "
      "no\n"
      "files.\n\n"
      "Examples:\n"
      "  attend lr-find --task sort\n"
      "  attend lr-find --text book.txt --num-layers 6 --json");
  command->callback([=] { run_lr_find(*arguments, *flags); });
}

}  // namespace attend::app
