#include "attend/input_error.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/background_observer.h"
#include "attend/train/device.h"
#include "attend/train/embedding_files.h"
#include "attend/train/metrics_log.h"
#include "attend/train/run.h"
#include "attend/train/task.h"
#include "attend/train/tensorboard_log.h"
#include "attend/train/trainer.h"
#include "attention_report.h"
#include "commands.h"
#include "progress_line.h"
#include "recipe_flags.h"
#include "sample_report.h"
#include "stop_signal.h"
#include "stopped.h"
#include "terminal.h"

#include <fmt/format.h>
#include <torch/utils.h>

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
      : recipe_(std::move(recipe)),
        resumes_(resumes),
        device_(train::find_device(recipe_.training.device)),
        task_(train::make_task(recipe_)),
        model_(train::make_model(recipe_, task_->tokenizer().size(), task_->classes().size())) {
    if (recipe_.training.threads > 0)
      torch::set_num_threads(static_cast<int>(recipe_.training.threads));
    train::module_of(model_).to(device_);
  }

  /// Throws Stopped if a signal ended it before its last step.
  void train_in(const fs::path& directory, bool overwrite) {
    open(directory, overwrite);
    train::Trainer trainer(model_, *task_, recipe_.training);
    if (resumes_) go_on(trainer, directory);
    introduce(directory);
    const auto neighbours_before = neighbours();
    const auto outcome = run(trainer, directory);
    if (outcome.ending == train::Ending::stop_requested) {
      write_error(fmt::format("stopped after step {}: go on with attend train --resume {}\n",
                              outcome.standing.step, directory.string()));
      throw Stopped(StopSignal::received());
    }
    model_ = train::load_run(directory).model;  // of the lowest loss, as the summary has it
    train::write_embeddings(directory, train::token_table(model_), token_names());
    train::finish_run(directory, recipe_, model_, outcome);
    print_outcome(outcome);
    print_findings(neighbours_before);
    fmt::print("\nSaved in {}\n", directory.string());
  }

 private:
  void open(const fs::path& directory, bool overwrite) {
    lock_ = resumes_ ? train::reopen_run(directory, recipe_, *task_)
                     : train::create_run(directory, recipe_, *task_, overwrite);
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
    first_step_ = found.snapshot.standing.step;
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

  void introduce(const fs::path& directory) const {
    fmt::print("task {}, vocabulary {}, {} layers, {} parameters, {}, run {}{}\n", recipe_.task,
               task_->tokenizer().size(), recipe_.stack().layers,
               parameter_count(train::module_of(model_)), device_.str(), directory.string(),
               resumes_ ? fmt::format(", going on after step {}", first_step_) : "");
    std::fflush(stdout);
  }

  train::Outcome run(train::Trainer& trainer, const fs::path& directory) const {
    const StopSignal stop;
    // A thread each, so that a terminal that is paused does not hold up the files.
    train::BackgroundObserver terminal({std::make_shared<ProgressLine>(recipe_.training.steps)});
    train::BackgroundObserver files(
        {std::make_shared<train::MetricsLog>(directory / train::RunFiles::metrics, first_step_),
         std::make_shared<train::TensorBoardLog>(directory / train::RunFiles::tensorboard,
                                                 first_step_)});
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
    const auto& tokenizer = task_->tokenizer();
    for (int64_t id = 0; id < tokenizer.size(); ++id) names.push_back(tokenizer.token(id));
    return names;
  }

  std::string neighbours() { return nearest_neighbours(model_, *task_); }

  void print_findings(const std::string& neighbours_before) {
    if (const auto after = neighbours(); !after.empty()) {
      fmt::print("\nNearest embeddings before training (cosine):\n{}and after:\n{}",
                 neighbours_before, after);
    }
    if (const auto attention = last_token_attention(model_, *task_); !attention.empty()) {
      fmt::print("\nWhat the last word attends to (last layer, mean of heads):\n{}", attention);
    }
    fmt::print("{}", sample_report(model_, *task_, recipe_.training.seed));
  }

  train::Recipe recipe_;
  bool resumes_;
  torch::Device device_;
  std::unique_ptr<train::Task> task_;
  train::Model model_;
  std::unique_ptr<train::RunLock> lock_;
  int64_t first_step_ = 0;
};

train::Recipe recipe_for(const TrainArguments& arguments, const RecipeFlags& flags) {
  if (arguments.resume.empty()) return flags.resolve(arguments.recipe);
  for (const auto& [given, name] : {std::pair(!arguments.recipe.empty(), "a recipe"),
                                    std::pair(!arguments.out.empty(), "--out"),
                                    std::pair(arguments.overwrite, "--overwrite")}) {
    if (given)
      throw InputError(fmt::format("--resume goes on with a run as it is: leave {} away", name));
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
      ->type_name("FILE");
  const auto add_directory = [&](const char* flag, std::string& target, const char* help) {
    command->add_option(flag, target, help)->type_name("DIR")->group("Output")->check(not_empty);
  };
  add_directory("--out", arguments->out, "run directory to make [runs/TASK]");
  add_directory("--resume", arguments->resume,
                "run directory to go on with, from its latest checkpoint");
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds")
      ->group("Output");
  command
      ->add_flag("--print-config", arguments->print_config, "print the resulting recipe and stop")
      ->group("Output");
  auto flags = std::make_shared<RecipeFlags>(*command);
  command->footer(
      "Defaults in brackets: of the first task; attend train --task NAME --print-config\n"
      "prints those of another one.\n\n"
      "Examples:\n"
      "  attend train --layers 4 --lr 1e-3 --out runs/deep\n"
      "  attend train --text book.txt --context 128 --positions rotary\n"
      "  attend train --resume runs/deep\n"
      "  attend train --print-config > recipe.toml && attend train recipe.toml");
  command->callback([=] { run_train(*arguments, *flags); });
}

}  // namespace attend::app
