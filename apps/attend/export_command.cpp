#include "attend/export/torchscript.h"
#include "attend/input_error.h"
#include "commands.h"
#include "run_option.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  RunOption run;
  std::string out;
  bool overwrite = false;
};

/// Tokens (B, T), different for each shape.
torch::Tensor example_tokens(const train::Run& run, int64_t batch, int64_t length) {
  const auto ids =
      torch::arange(batch * length, torch::kLong).mul(7).remainder(run.tokenizer->size());
  return ids.view({batch, length});
}

/// Throws InputError unless `arguments.out` can be written, and nothing of worth is lost by it.
void check_target(const ExportArguments& arguments) {
  const fs::path out = arguments.out;
  const auto fail = [&](const std::string& why) { throw InputError(arguments.out + ": " + why); };
  for (const char* other : {".onnx", ".pt2", ".safetensors"}) {
    if (out.extension() == other)
      fail(fmt::format("TorchScript is written, not {}; name it .pt", other));
  }
  const auto folder = fs::absolute(out).parent_path();
  if (out.empty() || !fs::is_directory(folder)) fail("there is no folder " + folder.string());
  if (train::is_file_of_run(arguments.run.directory(), out)) {
    fail(fmt::format("is a file of the run {} itself", arguments.run.directory()));
  }
  const auto status = fs::symlink_status(out);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) fail("exists and is not a file");
  if (!arguments.overwrite) fail("exists; choose another -o, or give --overwrite");
}

void run_export(const ExportArguments& arguments) {
  check_target(arguments);
  auto run = arguments.run.load();
  const int64_t context = run.recipe.context();
  TorchScriptOptions options{
      .input_names = {"tokens"},
      .check_inputs = {{example_tokens(run, 3, context)}, {example_tokens(run, 1, 1)}},
      .extra_files = run.tokenizer->files()};
  options.extra_files.emplace(train::RunFiles::recipe, train::to_toml(run.recipe));
  const auto traced = example_tokens(run, 2, std::max<int64_t>(1, context / 2));
  auto& model = train::model_as<LanguageModel>(run.model, "attend export");
  const auto report = export_torchscript(model, traced, arguments.out, options);
  fmt::print("{}: TorchScript, {} bytes; traced at (2, {}), equal to the model there",
             arguments.out, fs::file_size(arguments.out), traced.size(1));
  for (std::size_t i = 1; i < report.checked_shapes.size(); ++i) {
    const auto& shape = report.checked_shapes[i];
    fmt::print(", at ({}, {})", shape[0], shape[1]);
  }
  fmt::print("; largest difference {:.2g}\n", report.max_difference);
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto* command = app.add_subcommand("export", "Write a trained model as TorchScript");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->run.add_to(*command);
  command->add_option("-o,--out", arguments->out, "file to write, as in model.pt")
      ->required()
      ->type_name("FILE")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file")
      ->group("Output");
  command->footer(
      "The file holds the tokenizer as tokenizer.json, subwords as\n"
      "tokenizer.model, and the recipe as recipe.toml. "
      "It is loaded and compared with the model before it gets its name.\n\n"
      "Examples:\n"
      "  attend export runs/first -o model.pt");
  command->callback([=] { run_export(*arguments); });
}

}  // namespace attend::app
