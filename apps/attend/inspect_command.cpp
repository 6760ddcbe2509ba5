#include "attend/export/pt2_contents.h"
#include "attend/export/torchscript_contents.h"
#include "attend/input_error.h"
#include "attend/io/file_kind.h"
#include "commands.h"
#include "inspect_run.h"
#include "io/utf8.h"
#include "number_option.h"
#include "number_text.h"
#include "tensor_table.h"

#include <fmt/format.h>

#include <memory>

namespace attend::app {
namespace {

/// A longer table is grouped by module unless --depth asks for all of it.
constexpr int64_t kMaxRows = 60;

struct InspectArguments {
  std::string path;
  bool json = false;
  bool trust = false;
  int64_t depth = 0;  ///< 0: what fits in kMaxRows
};

InspectReport inspect_safetensors(const std::string& path) {
  const auto header = read_safetensors_header(path);
  InspectReport found;
  found.head = report_line("kind", "safetensors");
  for (const auto& [key, value] : header.metadata) {
    found.head += report_line("metadata", printable(key) + " = " + printable(value));
  }
  found.json = {{"kind", "safetensors"}, {"path", path}, {"metadata", header.metadata}};
  found.tensors = tensors_of(header);
  return found;
}

std::string extra_file_lines(const std::map<std::string, uint64_t>& files) {
  std::string lines;
  for (const auto& [name, bytes] : files) {
    const auto size = bytes_text(static_cast<double>(bytes));
    lines += report_line("extra file", fmt::format("{} ({})", printable(name), size));
  }
  return lines;
}

InspectReport inspect_torchscript(const std::string& path, bool trust) {
  if (!trust) {
    throw InputError(fmt::format(
        "{}: loading TorchScript can run code that is in it: give --trust if you trust who made it",
        path));
  }
  const auto contents = torchscript_contents(path);
  InspectReport found;
  found.head = report_line("kind", "TorchScript");
  for (const auto& method : contents.methods) {
    found.head += report_line("method", printable(method));
  }
  found.head += extra_file_lines(contents.extra_files);
  found.json = {{"kind", "torchscript"},
                {"path", path},
                {"methods", contents.methods},
                {"extra_files", contents.extra_files}};
  found.tensors = contents.tensors;
  return found;
}

InspectReport inspect_pt2(const std::string& path) {
  const auto contents = pt2_contents(path);
  InspectReport found;
  found.head = report_line("kind", "pt2, of torch.export");
  for (const auto& input : contents.inputs) found.head += report_line("input", printable(input));
  int64_t calls = 0;
  for (const auto& [name, count] : contents.operators) calls += count;
  found.head += report_line(
      "graph", fmt::format("{} calls of {} operators", calls, contents.operators.size()));
  found.head += extra_file_lines(contents.extra_files);
  found.json = {{"kind", "pt2"},
                {"path", path},
                {"inputs", contents.inputs},
                {"operators", contents.operators},
                {"extra_files", contents.extra_files}};
  found.tensors = contents.tensors;
  return found;
}

InspectReport inspect(const InspectArguments& arguments) {
  const auto& path = arguments.path;
  if (std::filesystem::is_directory(path)) return inspect_run(path);
  switch (file_kind(path)) {
    case FileKind::safetensors:
      return inspect_safetensors(path);
    case FileKind::pt2:
      return inspect_pt2(path);
    default:
      return inspect_torchscript(path, arguments.trust);
  }
}

std::string totals_text(const TensorTotals& totals) {
  const auto count = [](int64_t number) { return count_text(static_cast<double>(number)); };
  const auto bytes = bytes_text(static_cast<double>(totals.bytes));
  if (totals.trainable + totals.frozen + totals.buffers == 0) {  // roles are not known
    return report_line("total", fmt::format("{} numbers in {} tensors, {}", count(totals.elements),
                                            totals.tensors, bytes));
  }
  return report_line("parameters",
                     fmt::format("{} ({} trainable), and {} numbers in buffers; {}",
                                 count(totals.trainable + totals.frozen), count(totals.trainable),
                                 count(totals.buffers), bytes));
}

void run_inspect(const InspectArguments& arguments) {
  auto found = inspect(arguments);
  if (arguments.json) {
    if (found.has_tensors) {
      found.json["totals"] = totals_json(totals_of(found.tensors));
      found.json["tensors"] = tensors_json(found.tensors);
    }
    fmt::print("{}\n", found.json.dump(-1, ' ', /*ensure_ascii=*/false,
                                       nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  fmt::print("{}", found.head);
  if (!found.has_tensors) return;
  const auto tree = tensor_tree(found.tensors);
  const auto depth = arguments.depth > 0 ? arguments.depth : depth_for(tree, kMaxRows);
  fmt::print("\n{}\n{}{}", tensor_table(tree, depth), totals_text(tree.totals), found.tail);
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "inspect", "Show what is in a run, or in a safetensors, .pt2 or TorchScript file");
  auto arguments = std::make_shared<InspectArguments>();
  command->add_option("path", arguments->path, "run directory or file, recognised by its content")
      ->required()
      ->type_name("PATH");
  command->add_flag("--json", arguments->json, "print one JSON object, with exact numbers")
      ->group("Output");
  command->add_flag("--trust", arguments->trust,
                    "load TorchScript, which can run code that is in the file");
  add_number(*command, "--depth", arguments->depth, kPositive, "how deep the table goes", "LEVELS")
      ->default_str(fmt::format("what fits in {} lines", kMaxRows))
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  attend inspect runs/first\n"
      "  attend inspect model.safetensors --depth 2\n"
      "  attend inspect model.pt2\n"
      "  attend inspect model.pt --trust --json");
  command->callback([=] { run_inspect(*arguments); });
}

}  // namespace attend::app
