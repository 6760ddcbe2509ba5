#include "attend/input_error.h"
#include "attend/nn/parameter_count.h"
#include "attend/pretrained/pretrained.h"
#include "attend/train/initial_model.h"
#include "attend/train/run_directory.h"
#include "attend/train/save_run.h"
#include "commands.h"
#include "terminal/activity.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace attend::app {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
  bool overwrite = false;
};

void run_import(const ImportArguments& arguments) {
  if (arguments.out.empty()) throw InputError("-o: expected the name of a folder, found ''");
  train::RunDirectory::check_can_create(arguments.out, arguments.overwrite);
  std::optional<Activity> activity("loading");
  const auto pretrained = load_pretrained(arguments.folder, {.dtype = torch::kFloat});
  const auto run = train::published_run(pretrained, arguments.folder);
  activity.emplace("writing");
  train::save_run(run, arguments.out, arguments.overwrite);
  activity.reset();
  for (const auto& warning : pretrained.warnings)
    fmt::print(stderr, "{}: {}\n", arguments.folder, warning);
  fmt::print("{}: {}, {} parameters, task {}\n", arguments.out, pretrained.model_type,
             parameter_count(module_of(pretrained.model)), run.recipe.task);
}

}  // namespace

void add_import_command(CLI::App& app) {
  auto* command = app.add_subcommand("import", "Write a published model as a run");
  auto arguments = std::make_shared<ImportArguments>();
  command->add_option("folder", arguments->folder, "folder of a published model with config.json")
      ->required()
      ->type_name("DIR");
  command->add_option("-o,--out", arguments->out, "new run directory")
      ->required()
      ->type_name("DIR")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing run")
      ->group("Output");
  command->footer(
      "The run has the weights in float32; attend train --init-from begins with them. train\n"
      "--init-from, embed, generate, eval, inspect and export accept the folder itself, too.\n\n"
      "Examples:\n"
      "  attend import Qwen3-0.6B -o runs/qwen3\n"
      "  attend train --init-from runs/qwen3 --text notes.txt --max-seq-len 512\n"
      "  attend import all-MiniLM-L6-v2 -o runs/minilm\n"
      "  attend train --init-from runs/minilm --text reviews.csv");
  command->callback([=] { run_import(*arguments); });
}

}  // namespace attend::app
