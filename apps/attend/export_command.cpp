#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/model_export/export_plan.h"
#include "choice.h"
#include "commands.h"
#include "export_format.h"
#include "io/utf8.h"
#include "run_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

namespace attend::app {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  RunOption run;
  std::string out;
  std::string format;  ///< empty: that of the file's extension
  bool overwrite = false;
};

ExportFormat format_of(const ExportArguments& arguments) {
  if (!arguments.format.empty()) return parse_choice<ExportFormat>("--format", arguments.format);
  const std::map<std::string, ExportFormat> extensions{{".pt", ExportFormat::torchscript},
                                                       {".pt2", ExportFormat::pt2},
                                                       {".onnx", ExportFormat::onnx},
                                                       {".safetensors", ExportFormat::safetensors}};
  const auto found = extensions.find(fs::path(arguments.out).extension());
  if (found != extensions.end()) return found->second;
  throw InputError(
      fmt::format("{}: the name tells no format: give --format {}, or a name that ends in .pt, "
                  ".pt2, .onnx or .safetensors",
                  arguments.out, choices<ExportFormat>()));
}

/// Throws InputError unless `arguments.out` can be written, and nothing of worth is lost by it.
void check_target(const ExportArguments& arguments) {
  const fs::path out = arguments.out;
  const auto fail = [&](const std::string& why) { throw InputError(arguments.out + ": " + why); };
  if (out.empty()) throw InputError("-o: expected the name of a file, found ''");
  const auto folder = fs::absolute(out).parent_path();
  if (!fs::is_directory(folder)) fail("there is no folder " + folder.string());
  if (train::RunDirectory::owns(arguments.run.directory(), out)) {
    fail(fmt::format("is a file of the run {} itself", arguments.run.directory()));
  }
  const auto status = fs::symlink_status(out);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) fail("exists and is not a file");
  if (!arguments.overwrite) fail("exists; choose another -o, or give --overwrite");
}

/// What a program needs beside the model: its tokenizer, and the recipe that it was made by.
std::map<std::string, std::string> files_beside(const train::Run& run) {
  auto files = run.tokenizer->files();
  files.emplace(train::RunFiles::recipe, train::to_toml(run.recipe));
  return files;
}

/// Only text, which is all that can stand beside the graph in .pt2 and ONNX.
std::map<std::string, std::string> texts_of(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, content] : files) {
    if (replace_invalid_utf8(content) == content) {
      texts.emplace(name, content);
    } else {
      fmt::print(stderr, "{} is not text, so it is not in the file\n", name);
    }
  }
  return texts;
}

ExportReport write(train::Run& run, ExportFormat format, const fs::path& out) {
  auto plan = std::visit([](const auto& model) { return plan_export(model); }, run.model);
  plan.options.extra_files = files_beside(run);
  switch (format) {
    case ExportFormat::torchscript:
      return export_torchscript(plan, out);
    case ExportFormat::pt2:
      plan.options.extra_files = texts_of(plan.options.extra_files);
      return export_pt2(plan, out);
    case ExportFormat::onnx:
      plan.options.extra_files = texts_of(plan.options.extra_files);
      return export_onnx(plan, out);
    case ExportFormat::safetensors:
      save_safetensors(out, {.tensors = state_dict(*plan.model), .metadata = {{"format", "pt"}}});
      return {};
  }
  throw InputError(fmt::format("unknown format {}", static_cast<int>(format)));
}

/// Against what a file was compared, and how close it is.
std::string proof_text(ExportFormat format, const ExportReport& report) {
  if (format == ExportFormat::safetensors) return "the weights alone";
  std::vector<std::string> shapes;
  for (const auto& shape : report.verified_shapes) {
    shapes.push_back(fmt::format("({})", fmt::join(shape, ", ")));
  }
  return fmt::format("{} compared with the model for tokens of {}; largest difference {:.2g}{}",
                     format == ExportFormat::onnx ? "the calls it was written from," : "read back,",
                     fmt::join(shapes, ", "), report.max_abs_diff,
                     report.verified_other_values ? "" : "; the model took no other tokens");
}

void run_export(const ExportArguments& arguments) {
  check_target(arguments);
  const auto format = format_of(arguments);
  auto run = arguments.run.load();
  const auto report = write(run, format, arguments.out);
  fmt::print("{}: {}, {} bytes; {}\n", arguments.out, to_string(format),
             fs::file_size(arguments.out), proof_text(format, report));
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto* command = app.add_subcommand("export", "Write a trained model for other programs");
  auto arguments = std::make_shared<ExportArguments>();
  arguments->run.add_to(*command);
  arguments->run.add_device_to(*command, "cpu");
  command->add_option("-o,--out", arguments->out, "file to write, as in model.pt")
      ->required()
      ->type_name("FILE")
      ->group("Output");
  command->add_option("--format", arguments->format, "what to write it as")
      ->type_name(choices<ExportFormat>())
      ->default_str("by the file's name: .pt, .pt2, .onnx, .safetensors")
      ->group("Output");
  command->add_flag("--overwrite", arguments->overwrite, "replace an existing file")
      ->group("Output");
  command->footer(
      "torchscript   torch.jit.load in Python and C++; methods such as generate, too\n"
      "pt2           torch.export.load in Python, load_pt2 in C++; AOTInductor compiles it\n"
      "onnx          onnxruntime and others\n"
      "safetensors   the weights alone\n\n"
      "All but the last hold the tokenizer as tokenizer.json and the recipe as recipe.toml,\n"
      "TorchScript also subwords as tokenizer.model. TorchScript and pt2 are read back and "
      "compared with the model,\n"
      "at other sizes too, before the file gets its name; of onnx the calls it was written "
      "from.\n\n"
      "Examples:\n"
      "  attend export runs/first -o model.pt\n"
      "  attend export runs/first -o model.onnx\n"
      "  attend export runs/first --weights last --format pt2 -o newest.bin");
  command->callback([=] { run_export(*arguments); });
}

}  // namespace attend::app
