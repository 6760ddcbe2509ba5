#include "attend/models/generation.h"
#include "attend/nn/parameter_count.h"
#include "attend/train/metrics_log.h"
#include "attend/train/run.h"
#include "attend/train/task.h"
#include "attend/train/trainer.h"
#include "attention_report.h"
#include "commands.h"
#include "progress_line.h"
#include "recipe_flags.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <filesystem>
#include <memory>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  std::string recipe_file;
  std::string out;
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

void print_sample(LanguageModel& model, const train::Task& task, int64_t seed) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  const auto& vocabulary = task.vocabulary();
  const auto tokens = generate(model, vocabulary.encode(task.prompt()),
                               {.max_new_tokens = 200, .temperature = 0.8}, generator);
  fmt::print("\nA sample, continuing the text's first line:\n{}{}\n", task.prompt(),
             vocabulary.decode(tokens));
}

void print_outcome(const train::Recipe& recipe, const train::Outcome& outcome) {
  fmt::print("\nval loss   {:.4f} nats a token, on {} held-out tokens\n", outcome.evaluation.loss,
             outcome.evaluation.tokens);
  if (outcome.evaluation.accuracy) {
    fmt::print("accuracy   {:.1f} % of held-out answers ({} layers)\n",
               *outcome.evaluation.accuracy * 100, recipe.stack().layers);
  }
  fmt::print("time       {:.1f} s, {:.0f} tokens/s\n", outcome.seconds, outcome.tokens_per_second);
}

void print_neighbours(const std::string& before, const std::string& after) {
  if (after.empty()) return;
  fmt::print("\nNearest embeddings before training (cosine):\n{}and after:\n{}", before, after);
}

void run_train(const TrainArguments& arguments, const RecipeFlags& flags) {
  auto recipe = flags.resolve(arguments.recipe_file);
  if (arguments.print_config) {
    fmt::print("{}", train::to_toml(recipe));
    return;
  }
  if (!recipe.text.empty()) recipe.text = fs::absolute(recipe.text).string();
  const auto task = train::find_task(recipe.task).make(recipe);
  if (recipe.training.threads > 0)
    torch::set_num_threads(static_cast<int>(recipe.training.threads));
  auto model = train::make_model(recipe, task->vocabulary());
  const auto directory = arguments.out.empty() ? free_directory(recipe) : fs::path(arguments.out);
  train::create_run_directory(directory, recipe, arguments.overwrite);

  fmt::print("task {}, vocabulary {}, {} layers, {} parameters, run {}\n", recipe.task,
             task->vocabulary().size(), recipe.stack().layers, parameter_count(*model),
             directory.string());
  std::fflush(stdout);

  const auto neighbours_before = nearest_neighbours(model, *task);
  ProgressLine line(recipe.training.steps);
  train::MetricsLog log(directory / train::RunFiles::metrics);
  const auto outcome = train::train(model, *task, recipe.training, {&line, &log});
  train::save_run(directory, recipe, task->vocabulary(), model, outcome);

  print_outcome(recipe, outcome);
  print_neighbours(neighbours_before, nearest_neighbours(model, *task));
  const auto attention = last_token_attention(model, *task);
  if (!attention.empty()) {
    fmt::print("\nWhat the last word attends to (last layer, mean of heads):\n{}", attention);
  }
  if (!task->prompt().empty()) print_sample(model, *task, recipe.training.seed);
  fmt::print("\nSaved in {}\n", directory.string());
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train a model; without arguments, the task senses");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("recipe", arguments->recipe_file, "TOML file, as --print-config writes it")
      ->type_name("FILE");
  command->add_option("--out", arguments->out, "run directory to make [runs/TASK]")
      ->type_name("DIR")
      ->group("Output")
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds")
      ->group("Output");
  command
      ->add_flag("--print-config", arguments->print_config, "print the resulting recipe and stop")
      ->group("Output");
  auto flags = std::make_shared<RecipeFlags>(*command);
  command->footer(
      "Defaults in brackets: of the task senses, then of others that differ.\n\n"
      "Examples:\n"
      "  attend train --layers 4 --lr 1e-3 --out runs/deep\n"
      "  attend train --text book.txt --context 128 --positions rotary\n"
      "  attend train --print-config > recipe.toml && attend train recipe.toml");
  command->callback([=] { run_train(*arguments, *flags); });
}

}  // namespace attend::app
