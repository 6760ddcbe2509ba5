#include "attend/input_error.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/background_observer.h"
#include "attend/train/training_run.h"
#include "attention_report.h"
#include "commands.h"
#include "progress_line.h"
#include "recipe_flags.h"
#include "recipe_folder.h"
#include "sample_report.h"
#include "stop_signal.h"
#include "stopped.h"
#include "terminal.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::string recipe;
  std::string out;
  std::string resume;
  bool overwrite = false;
  bool print_config = false;
};

/// runs/senses, or runs/senses-2 and so on if that exists.
fs::path free_directory(const train::Recipe& recipe) {
  const auto name = recipe.text.empty() ? recipe.task : fs::path(recipe.text).stem().string();
  fs::path directory = fs::path("runs") / name;
  for (int n = 2; fs::exists(directory); ++n)
    directory = fs::path("runs") / fmt::format("{}-{}", name, n);
  return directory;
}

/// Trains a run and reports.
class Training {
 public:
  explicit Training(train::RecipeRun run) : run_(std::move(run)) {}

  /// Throws Stopped if a signal ended it before its last step.
  void to_its_end() {
    introduce();
    const auto neighbours_before = neighbours();
    const auto outcome = train();
    if (outcome.stop_reason == train::StopReason::stop_requested) {
      write_error(fmt::format("stopped after step {}: go on with attend train --resume {}\n",
                              outcome.state.step, run_.directory().path().string()));
      throw Stopped(StopSignal::received());
    }
    run_.finish(outcome);
    print_outcome(outcome);
    print_findings(neighbours_before);
    fmt::print("\nSaved in {}\n", run_.directory().path().string());
  }

 private:
  void introduce() {
    for (const auto& damage : run_.damaged()) {
      write_error(
          fmt::format("attend: a checkpoint is damaged, taking the one before: {}\n", damage));
    }
    const auto& recipe = run_.recipe();
    const auto from = run_.resumed_state().step;
    fmt::print("task {}, vocabulary {}, {} layers, {} parameters, {}, run {}{}\n", recipe.task,
               run_.task().tokenizer().size(), recipe.stack().num_layers,
               parameter_count(train::module_of(run_.model())), run_.device().str(),
               run_.directory().path().string(),
               from > 0 ? fmt::format(", going on after step {}", from) : "");
    std::fflush(stdout);
  }

  train::TrainResult train() {
    const StopSignal stop;
    const auto& begun = run_.resumed_state();
    // On a thread of its own: a terminal that is paused does not hold up training.
    train::BackgroundObserver terminal({std::make_shared<ProgressLine>(
        run_.recipe().training.max_steps, begun.best ? begun.best->loss : INFINITY)});
    return run_.train({&terminal}, [] { return StopSignal::received() != 0; });
  }

  void print_outcome(const train::TrainResult& outcome) const {
    const auto& best = outcome.state.best.value();
    fmt::print("\nval loss   {:.4f} nats a target, on {} held-out targets, after step {}\n",
               best.loss, best.targets, outcome.state.best_step);
    if (best.accuracy) {
      fmt::print("accuracy   {:.1f} % of held-out answers ({} layers)\n", *best.accuracy * 100,
                 run_.recipe().stack().num_layers);
    }
    if (outcome.stop_reason == train::StopReason::patience) {
      fmt::print("ended      {} evaluations without a lower loss (patience)\n",
                 run_.recipe().training.patience);
    }
    if (outcome.state.skipped_steps > 0) {
      fmt::print("skipped    {} steps whose loss was not finite\n", outcome.state.skipped_steps);
    }
    fmt::print("time       {:.1f} s, {:.0f} tokens/s\n", outcome.state.seconds(),
               outcome.tokens_per_second);
  }

  std::string neighbours() { return nearest_neighbours(run_.model(), run_.task()); }

  void print_findings(const std::string& neighbours_before) {
    if (const auto after = neighbours(); !after.empty()) {
      fmt::print("\nNearest embeddings before training (cosine):\n{}and after:\n{}",
                 neighbours_before, after);
    }
    if (const auto attention = last_token_attention(run_.model(), run_.task());
        !attention.empty()) {
      fmt::print("\nWhat the last word attends to (last layer, mean of heads):\n{}", attention);
    }
    fmt::print("{}", sample_report(run_.model(), run_.task(), run_.recipe().training.seed));
  }

  train::RecipeRun run_;
};

train::Recipe recipe_for(const TrainArguments& arguments, const RecipeFlags& flags) {
  if (arguments.resume.empty()) return flags.resolve(arguments.recipe);
  for (const auto& [given, name] : {std::pair(!arguments.recipe.empty(), "a recipe"),
                                    std::pair(!arguments.out.empty(), "--out"),
                                    std::pair(arguments.overwrite, "--overwrite")}) {
    if (given) throw InputError(fmt::format("--resume goes on with a run as it is: omit {}", name));
  }
  return flags.over(train::RunDirectory(arguments.resume).recipe());
}

void run_train(const TrainArguments& arguments, const RecipeFlags& flags) {
  outlive_failed_writes();  // a run is not lost with the program that reads what it prints
  auto recipe = recipe_for(arguments, flags);
  if (arguments.print_config) {
    fmt::print("{}", train::to_toml(recipe));
    return;
  }
  if (!recipe.text.empty()) recipe.text = fs::absolute(recipe.text).string();
  if (!arguments.resume.empty()) {
    return Training(train::RecipeRun::resume(arguments.resume, recipe)).to_its_end();
  }
  const auto directory = arguments.out.empty() ? free_directory(recipe) : fs::path(arguments.out);
  Training(train::RecipeRun::begin(directory, recipe, arguments.overwrite)).to_its_end();
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model; without arguments, the task senses");
  auto arguments = std::make_shared<TrainArguments>();
  const auto not_empty = [](const std::string& text) {
    return text.empty() ? "must not be empty" : "";
  };
  command
      ->add_option("recipe", arguments->recipe,
                   "TOML file, as --print-config writes it, or a name that attend models lists")
      ->type_name(kRecipeType);
  const auto add_directory = [&](const char* flag, std::string& target, const char* help) {
    command->add_option(flag, target, help)->type_name("DIR")->group("Output")->check(not_empty);
  };
  add_directory("--out", arguments->out,
                "run directory to make [runs/ and the name of the text file or the task]");
  add_directory("--resume", arguments->resume,
                "run directory to go on with, from its latest checkpoint");
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds")
      ->group("Output");
  command
      ->add_flag("--print-config", arguments->print_config, "print the resulting recipe and stop")
      ->group("Output");
  auto flags = std::make_shared<RecipeFlags>(*command);
  command->footer(
      "Defaults in brackets: of the task senses; attend train --task NAME --print-config\n"
      "prints those of another one.\n\n"
      "Examples:\n"
      "  attend train --num-layers 4 --lr 1e-3 --out runs/deep\n"
      "  attend train --text book.txt --max-seq-len 128 --positions rotary\n"
      "  attend train --resume runs/deep\n"
      "  attend train --print-config > recipe.toml && attend train recipe.toml");
  command->callback([=] { run_train(*arguments, *flags); });
}

}  // namespace attend::app
