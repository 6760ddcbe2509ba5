#include "attend/input_error.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/background_observer.h"
#include "attend/train/embedding_files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/run.h"
#include "attend/train/task.h"
#include "attend/train/tensorboard_log.h"
#include "attend/train/trainer.h"
#include "attention_report.h"
#include "commands.h"
#include "prepare.h"
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

/// A run from its start to its report.
class TrainingRun {
 public:
  TrainingRun(train::Recipe recipe, bool resumes)
      : recipe_(std::move(recipe)), resumes_(resumes), prepared_(prepare(recipe_)) {}

  /// Throws Stopped if a signal ended it before its last step.
  void train_in(const fs::path& directory, bool overwrite) {
    open(directory, overwrite);
    train::Trainer trainer(model(), task(), recipe_.training);
    if (resumes_) go_on(trainer, directory);
    introduce(directory);
    const auto neighbours_before = neighbours();
    const auto outcome = run(trainer, directory);
    if (outcome.ending == train::Ending::stop_requested) {
      write_error(fmt::format("stopped after step {}: go on with attend train --resume {}\n",
                              outcome.standing.step, directory.string()));
      throw Stopped(StopSignal::received());
    }
    model() = train::load_run(directory).model;  // of the lowest loss, as the summary has it
    train::write_embeddings(directory, train::token_table(model()), token_names());
    train::finish_run(directory, recipe_, model(), outcome);
    print_outcome(outcome);
    print_findings(neighbours_before);
    fmt::print("\nSaved in {}\n", directory.string());
  }

 private:
  void open(const fs::path& directory, bool overwrite) {
    lock_ = resumes_ ? train::reopen_run(directory, recipe_, task())
                     : train::create_run(directory, recipe_, task(), overwrite);
  }

  void go_on(train::Trainer& trainer, const fs::path& directory) {
    // Without one the run was ended before its first: it begins again.
    if (const auto found = train::latest_checkpoint(directory)) restore(trainer, directory, *found);
    train::keep_recipe(directory, recipe_);
  }

  void restore(train::Trainer& trainer, const fs::path& directory,
               const train::CheckpointStore::Found& found) {
    check_is_open(directory, found.snapshot.standing);
    for (const auto& damage : found.damaged) {
      write_error(
          fmt::format("attend: a checkpoint is damaged, taking the one before: {}\n", damage));
    }
    trainer.restore(found.snapshot);
    begun_ = found.snapshot.standing;
  }

  /// A run that has done its last step, but was ended before it was finished, is open: it is to be
  /// finished.
  void check_is_open(const fs::path& directory, const train::Standing& standing) const {
    const auto& training = recipe_.training;
    const bool finished = train::is_finished(directory, standing);
    if (standing.step > training.steps ||
        (standing.step == training.steps && (finished || !standing.best))) {
      throw InputError(fmt::format("{} has done {} steps of {}: give more --steps to go on",
                                   directory.string(), standing.step, training.steps));
    }
    if (finished && training.patience > 0 &&
        standing.evaluations_without_gain >= training.patience) {
      throw InputError(fmt::format(
          "{} was ended by its patience after step {}: give a higher --patience to go on",
          directory.string(), standing.step));
    }
  }

  void introduce(const fs::path& directory) {
    fmt::print("task {}, vocabulary {}, {} layers, {} parameters, {}, run {}{}\n", recipe_.task,
               task().tokenizer().size(), recipe_.stack().layers,
               parameter_count(train::module_of(model())), prepared_.device.str(),
               directory.string(),
               resumes_ ? fmt::format(", going on after step {}", begun_.step) : "");
    std::fflush(stdout);
  }

  train::Outcome run(train::Trainer& trainer, const fs::path& directory) const {
    const StopSignal stop;
    const double best_loss = begun_.best ? begun_.best->loss : INFINITY;
    // A thread each, so that a terminal that is paused does not hold up the files.
    train::BackgroundObserver terminal(
        {std::make_shared<ProgressLine>(recipe_.training.steps, best_loss)});
    train::BackgroundObserver files(
        {std::make_shared<train::MetricsLog>(directory / train::RunFiles::metrics, begun_.step),
         std::make_shared<train::TensorBoardLog>(directory / train::RunFiles::tensorboard,
                                                 begun_.step)});
    train::RunKeeper keeper(directory);
    return trainer.run({.observers = {&files, &terminal}, .keeper = &keeper, .stop_requested = [] {
                          return StopSignal::received() != 0;
                        }});
  }

  void print_outcome(const train::Outcome& outcome) const {
    const auto& best = outcome.standing.best.value();
    fmt::print("\nval loss   {:.4f} nats a target, on {} held-out targets, after step {}\n",
               best.loss, best.tokens, outcome.standing.best_step);
    if (best.accuracy) {
      fmt::print("accuracy   {:.1f} % of held-out answers ({} layers)\n", *best.accuracy * 100,
                 recipe_.stack().layers);
    }
    if (outcome.ending == train::Ending::patience) {
      fmt::print("ended      {} evaluations without a lower loss (patience)\n",
                 recipe_.training.patience);
    }
    if (outcome.standing.skipped > 0) {
      fmt::print("skipped    {} steps whose loss was not finite\n", outcome.standing.skipped);
    }
    fmt::print("time       {:.1f} s, {:.0f} tokens/s\n", outcome.standing.seconds(),
               outcome.tokens_per_second);
  }

  std::vector<std::string> token_names() const {
    std::vector<std::string> names;
    const auto& tokenizer = task().tokenizer();
    for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
    return names;
  }

  std::string neighbours() { return nearest_neighbours(model(), task()); }

  void print_findings(const std::string& neighbours_before) {
    if (const auto after = neighbours(); !after.empty()) {
      fmt::print("\nNearest embeddings before training (cosine):\n{}and after:\n{}",
                 neighbours_before, after);
    }
    if (const auto attention = last_token_attention(model(), task()); !attention.empty()) {
      fmt::print("\nWhat the last word attends to (last layer, mean of heads):\n{}", attention);
    }
    fmt::print("{}", sample_report(model(), task(), recipe_.training.seed));
  }

  const train::Task& task() const { return *prepared_.task; }
  train::Model& model() { return prepared_.model; }

  train::Recipe recipe_;
  bool resumes_;
  Prepared prepared_;
  std::unique_ptr<train::RunLock> lock_;
  train::Standing begun_;  // where it goes on from
};

train::Recipe recipe_for(const TrainArguments& arguments, const RecipeFlags& flags) {
  if (arguments.resume.empty()) return flags.resolve(arguments.recipe);
  for (const auto& [given, name] : {std::pair(!arguments.recipe.empty(), "a recipe"),
                                    std::pair(!arguments.out.empty(), "--out"),
                                    std::pair(arguments.overwrite, "--overwrite")}) {
    if (given) throw InputError(fmt::format("--resume goes on with a run as it is: omit {}", name));
  }
  return flags.over(train::recipe_of_run(arguments.resume));
}

void run_train(const TrainArguments& arguments, const RecipeFlags& flags) {
  outlive_failed_writes();  // a run is not lost with the program that reads what it prints
  auto recipe = recipe_for(arguments, flags);
  if (arguments.print_config) {
    fmt::print("{}", train::to_toml(recipe));
    return;
  }
  if (!recipe.text.empty()) recipe.text = fs::absolute(recipe.text).string();
  const bool resumes = !arguments.resume.empty();
  TrainingRun run(recipe, resumes);
  const auto directory = resumes                 ? fs::path(arguments.resume)
                         : arguments.out.empty() ? free_directory(recipe)
                                                 : fs::path(arguments.out);
  run.train_in(directory, arguments.overwrite);
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
      "  attend train --layers 4 --lr 1e-3 --out runs/deep\n"
      "  attend train --text book.txt --context 128 --positions rotary\n"
      "  attend train --resume runs/deep\n"
      "  attend train --print-config > recipe.toml && attend train recipe.toml");
  command->callback([=] { run_train(*arguments, *flags); });
}

}  // namespace attend::app
