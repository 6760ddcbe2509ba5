#include "attend/export/onnx_contents.h"
#include "attend/export/torchscript_contents.h"
#include "attend/input_error.h"
#include "attend/io/file_kind.h"
#include "attend/io/files.h"
#include "attend/io/load_weights.h"
#include "attend/io/safetensors.h"
#include "attend/io/utf8.h"
#include "attend/pretrained/peft_adapter.h"
#include "attend/pretrained/pretrained.h"
#include "attend/pt2/pt2_contents.h"
#include "attend/train/checkpoint_store.h"
#include "commands.h"
#include "json_text.h"
#include "options.h"
#include "runs/inspect_run.h"
#include "runs/run_option.h"
#include "terminal/number_text.h"
#include "terminal/table_text.h"
#include "terminal/tensor_table.h"

#include <fmt/format.h>

#include <memory>

namespace attend::app {
namespace {

/// Without --depth, the table shows as many levels as fit in this number of rows, but at least one
/// level.
constexpr int64_t kMaxLines = 60;

struct InspectArguments {
  std::string path;
  bool json = false;
  int64_t depth = 0;  ///< levels to print; 0 = as many as fit in kMaxLines
};

/// Maximum number of characters of a metadata value that is printed. The JSON is complete.
constexpr std::size_t kMaxMetadata = 200;

std::string metadata_lines(const std::map<std::string, std::string>& metadata) {
  const auto shorten = [](const std::string& text) {
    if (text.size() <= kMaxMetadata) return printable(text);
    return fmt::format("{}... ({} bytes)", printable(text.substr(0, kMaxMetadata)), text.size());
  };
  std::string lines;
  for (const auto& [key, value] : metadata) {
    lines += report_line("metadata", shorten(key) + " = " + shorten(value));
  }
  return lines;
}

InspectReport inspect_safetensors(const std::string& path) {
  const auto header = read_safetensors_header(path);
  InspectReport report;
  report.header = report_line("kind", "safetensors") + metadata_lines(header.metadata);
  report.json = {{"kind", "safetensors"}, {"path", path}, {"metadata", header.metadata}};
  report.tensors = tensors_of(header);
  return report;
}

std::string extra_file_lines(const std::map<std::string, uint64_t>& files) {
  std::string lines;
  for (const auto& [name, bytes] : files) {
    const auto size = bytes_text(static_cast<double>(bytes));
    lines += report_line("extra file", fmt::format("{} ({})", printable(name), size));
  }
  return lines;
}

InspectReport inspect_torchscript(const std::string& path) {
  const auto contents = torchscript_contents(path);
  InspectReport report;
  report.header = report_line("kind", "TorchScript");
  for (const auto& method : contents.methods) {
    report.header += report_line("method", printable(method));
  }
  report.header += extra_file_lines(contents.extra_files);
  report.json = {{"kind", "torchscript"},
                 {"path", path},
                 {"methods", contents.methods},
                 {"extra_files", contents.extra_files}};
  report.tensors = contents.tensors;
  return report;
}

std::string graph_line(const std::map<std::string, int64_t>& operators) {
  int64_t calls = 0;
  for (const auto& [name, count] : operators) calls += count;
  return report_line("graph", fmt::format("{} calls of {} operators", calls, operators.size()));
}

InspectReport inspect_onnx(const std::string& path) {
  const auto contents = onnx_contents(path);
  InspectReport report;
  report.header = report_line("kind", fmt::format("ONNX (opset {})", contents.opset));
  for (const auto& input : contents.inputs) report.header += report_line("input", printable(input));
  for (const auto& output : contents.outputs)
    report.header += report_line("output", printable(output));
  report.header += graph_line(contents.operators) + metadata_lines(contents.metadata);
  report.json = {{"kind", "onnx"},
                 {"path", path},
                 {"opset", contents.opset},
                 {"inputs", contents.inputs},
                 {"outputs", contents.outputs},
                 {"operators", contents.operators},
                 {"metadata", contents.metadata}};
  report.tensors = contents.tensors;
  return report;
}

InspectReport inspect_pt2(const std::string& path) {
  const auto contents = pt2_contents(path);
  InspectReport report;
  report.header = report_line("kind", "pt2 (torch.export)");
  for (const auto& input : contents.inputs) report.header += report_line("input", printable(input));
  report.header += graph_line(contents.operators) + extra_file_lines(contents.extra_files);
  report.json = {{"kind", "pt2"},
                 {"path", path},
                 {"inputs", contents.inputs},
                 {"operators", contents.operators},
                 {"extra_files", contents.extra_files}};
  report.tensors = contents.tensors;
  return report;
}

/// Adds a line for each value of `config`; the values of an object have its name before theirs.
void add_config_lines(const nlohmann::ordered_json& config, const std::string& prefix,
                      std::string& lines) {
  for (const auto& [key, value] : config.items()) {
    if (value.is_object()) {
      add_config_lines(value, prefix + key + ".", lines);
    } else {
      lines += report_line(
          "config", fmt::format("{} = {}", printable(prefix + key), printable(json_text(value))));
    }
  }
}

/// Reports `config.json` and the names, shapes and dtypes of the tensors in the files; of an
/// adapter, its own files, which name the base model.
InspectReport inspect_pretrained(const std::filesystem::path& folder) {
  const bool is_adapter = is_peft_adapter(folder);
  const auto path = file_in(folder, is_adapter ? "adapter_config.json" : "config.json");
  const nlohmann::ordered_json config =
      with_source(path.string(), [&] { return parse_json(read_text(path)); });
  const SafetensorsFiles files(is_adapter ? file_in(folder, "adapter_model.safetensors")
                                          : weights_file(folder));
  SafetensorsHeader header;
  for (const auto& [name, entry] : files.entries()) header.entries.push_back(entry);
  InspectReport report;
  report.header = report_line("kind", is_adapter ? "adapter of PEFT" : "published model");
  add_config_lines(config, "", report.header);
  report.json = {
      {"kind", is_adapter ? "peft" : "pretrained"}, {"path", folder.string()}, {"config", config}};
  report.tensors = tensors_of(header);
  return report;
}

InspectReport inspect(const InspectArguments& arguments) {
  const auto& path = arguments.path;
  if (std::filesystem::is_directory(path)) {
    if (train::CheckpointStore::is_checkpoint(path)) return inspect_checkpoint(path);
    if (const auto latest = train::CheckpointStore(path).latest(); !latest.empty()) {
      throw InputError(
          fmt::format("{}: a folder of checkpoints, expected a run or a checkpoint; pass "
                      "the latest checkpoint, {}, or another one",
                      path, latest.string()));
    }
    return read_run_or_pretrained(path, inspect_run, inspect_pretrained);
  }
  switch (file_kind(path)) {
    case FileKind::safetensors:
      return inspect_safetensors(path);
    case FileKind::pt2:
      return inspect_pt2(path);
    case FileKind::onnx:
      return inspect_onnx(path);
    case FileKind::torchscript:
      return inspect_torchscript(path);
  }
  throw std::logic_error("unknown FileKind");
}

std::string totals_text(const TensorTotals& totals) {
  const auto count = [](int64_t number) { return count_text(static_cast<double>(number)); };
  const auto bytes = bytes_text(static_cast<double>(totals.bytes));
  // Safetensors files do not record which tensors are parameters.
  if (totals.trainable + totals.frozen + totals.buffers == 0) {
    return report_line("total", fmt::format("{} elements in {} tensors, {}", count(totals.elements),
                                            totals.tensors, bytes));
  }
  return report_line("parameters",
                     fmt::format("{} ({} trainable), {} buffer elements; {}",
                                 count(totals.trainable + totals.frozen), count(totals.trainable),
                                 count(totals.buffers), bytes));
}

void run_inspect(const InspectArguments& arguments) {
  auto report = inspect(arguments);
  if (arguments.json) {
    if (report.has_tensors) {
      report.json["totals"] = totals_json(totals_of(report.tensors));
      report.json["tensors"] = tensors_json(report.tensors);
    }
    fmt::print("{}\n", json_text(report.json));
    return;
  }
  fmt::print("{}", report.header);
  if (!report.has_tensors) return;
  const auto tree = tensor_tree(report.tensors);
  const auto depth = arguments.depth > 0 ? arguments.depth : depth_for(tree, kMaxLines);
  fmt::print("\n{}\n{}{}", tensor_table(tree, depth), totals_text(tree.totals), report.footer);
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "inspect", "Show the contents of a run, or of a safetensors, .pt2, TorchScript or ONNX file");
  auto arguments = std::make_shared<InspectArguments>();
  command
      ->add_option(
          "path", arguments->path,
          "run directory, checkpoint folder, folder of a published model or adapter, or file; the "
          "type is detected from the content")
      ->required()
      ->type_name("PATH");
  command->add_flag("--json", arguments->json, "print one JSON object with exact numbers")
      ->group("Output");
  add_number(*command, "--depth", arguments->depth, kPositive,
             "number of levels of nested modules in the table", "LEVELS")
      ->default_str(fmt::format("as many as fit in {} lines", kMaxLines))
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend inspect runs/first\n"
      "  attend inspect model.safetensors --depth 2\n"
      "  attend inspect model.pt2\n"
      "  attend inspect model.pt --json");
  command->callback([=] { run_inspect(*arguments); });
}

}  // namespace attend::app
