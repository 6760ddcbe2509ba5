#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "attend/nn/parameter_count.h"
#include "attend/pretrained/pretrained.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/embedding_files.h"
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

/// Returns the task whose data has the form of the model's input.
const char* task_of(const Pretrained& pretrained, const std::string& folder) {
  if (std::holds_alternative<LanguageModel>(pretrained.model)) return "text";
  if (std::holds_alternative<SequenceClassifier>(pretrained.model)) return "labelled-lines";
  throw InputError(fmt::format(
      "{}: found the model type {}, a seq2seq, expected a language model or an encoder, since no "
      "task reads texts for a seq2seq; the commands generate, inspect and export accept the folder "
      "itself",
      folder, pretrained.model_type));
}

/// Returns the recipe of a run with the model.
train::Recipe recipe_of(const Pretrained& pretrained, const std::string& folder) {
  auto recipe = train::find_task(task_of(pretrained, folder)).defaults;
  recipe.data.tokenizer = TokenizerKind::published;
  recipe.model =
      std::visit([](const auto& model) -> ModelConfig { return model->config; }, pretrained.model);
  train::check_recipe(recipe);
  return recipe;
}

void run_import(const ImportArguments& arguments) {
  if (arguments.out.empty()) throw InputError("-o: expected the name of a folder, found ''");
  train::RunDirectory::check_can_create(arguments.out, arguments.overwrite);
  std::optional<Activity> activity("loading");
  const auto pretrained = load_pretrained(arguments.folder, {.dtype = torch::kFloat});
  if (!pretrained.prompt.empty() || pretrained.lowercase) {
    throw InputError(fmt::format(
        "{}: found {}, which a run does not have; the commands that need no training accept the "
        "folder itself",
        arguments.folder,
        pretrained.lowercase ? std::string("do_lower_case")
                             : fmt::format("the prompt '{}'", printable(pretrained.prompt))));
  }
  if (pretrained.classes.size() == 1) {
    throw InputError(
        fmt::format("{}: the model has 1 class, whose logit is a score, expected 2 or more classes",
                    arguments.folder));
  }
  const auto recipe = recipe_of(pretrained, arguments.folder);
  const auto vocab_size = train::token_embedding_weight(pretrained.model).size(0);
  PublishedModel published{.vocab_size = vocab_size,
                           .model_type = pretrained.model_type,
                           .eos_tokens = pretrained.eos_tokens};
  const auto& truncation = pretrained.tokenizer.truncation();
  if (truncation) published.max_length = truncation->max_length;
  activity.emplace("writing");
  train::save_run(
      {.recipe = recipe,
       .tokenizer = std::make_shared<PublishedTokenizer>(pretrained.tokenizer, published),
       .classes = pretrained.classes,
       .data_checksum = "",
       .model = pretrained.model},
      arguments.out, arguments.overwrite);
  activity.reset();
  for (const auto& warning : pretrained.warnings)
    fmt::print(stderr, "{}: {}\n", arguments.folder, warning);
  fmt::print("{}: {}, {} parameters, task {}\n", arguments.out, pretrained.model_type,
             parameter_count(module_of(pretrained.model)), recipe.task);
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
      "The run has the weights in float32; attend train --init-from begins with them. embed,\n"
      "generate, eval, inspect and export accept the folder itself, too.\n\n"
      "Examples:\n"
      "  attend import Qwen3-0.6B -o runs/qwen3\n"
      "  attend train --init-from runs/qwen3 --text notes.txt --max-seq-len 512\n"
      "  attend import all-MiniLM-L6-v2 -o runs/minilm\n"
      "  attend train --init-from runs/minilm --text reviews.csv");
  command->callback([=] { run_import(*arguments); });
}

}  // namespace attend::app
