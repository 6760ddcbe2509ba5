#include "attend/export/pt2.h"

#include "attend/export/pt2_program.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"
#include "export/export_scope.h"
#include "export/prove.h"
#include "export/pt2/read_pt2.h"
#include "export/pt2/traced_program.h"
#include "export/pt2/write_json.h"
#include "io/zip_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>
#include <torch/version.h>

namespace attend {
namespace {

/// The bytes of all that a tensor is a view of, wherever it is.
void write_storage(caffe2::serialize::PyTorchStreamWriter& writer, const std::string& entry,
                   const torch::Tensor& tensor) {
  const auto on_cpu = torch::jit::getWriteableTensorData(tensor);
  writer.writeRecord(entry, on_cpu.data(), on_cpu.sizeInBytes());
}

/// Writes weights and their config; weights of one storage share an entry.
void write_weights(caffe2::serialize::PyTorchStreamWriter& writer, const std::string& folder,
                   const std::string& config, const char* prefix,
                   const std::vector<pt2::Input>& inputs, const pt2::TracedProgram& traced) {
  std::map<const void*, std::string> entries;
  std::map<std::string, pt2::Weight> weights;
  std::map<std::string, bool> parameters;
  for (const auto& input : inputs) {
    const auto& tensor = traced.weights.at(input.target);
    auto& entry = entries[tensor.storage().unsafeGetStorageImpl()];
    if (entry.empty()) {
      entry = fmt::format("{}{}", prefix, entries.size() - 1);
      write_storage(writer, folder + entry, tensor);
    }
    auto meta = traced.program.tensors.at(input.name);
    meta.storage_offset = {tensor.storage_offset(), {}};
    weights.emplace(input.target, pt2::Weight{entry, meta});
    parameters.emplace(input.target, input.kind == pt2::InputKind::parameter);
  }
  const auto json = pt2::write_weights(weights, parameters);
  writer.writeRecord(folder + config, json.data(), json.size());
}

/// A call of a function with these inputs and no keywords, as torch.load reads it.
std::string pickle_call(const std::vector<torch::Tensor>& inputs) {
  std::string pickle;
  // Without the tags for the types of dictionaries, which torch.load takes for foreign code.
  torch::jit::Pickler pickler(
      [&](const char* data, std::size_t size) { pickle.append(data, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(
      c10::ivalue::Tuple::create({c10::ivalue::Tuple::create({inputs.begin(), inputs.end()}),
                                  c10::Dict<std::string, torch::Tensor>()}));
  pickler.stop();
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  std::size_t next = 0;
  for (const auto& tensor : pickler.tensorData()) {
    write_storage(writer, fmt::format("data/{}", next++), tensor);
  }
  writer.writeEndOfFile();
  return bytes;
}

std::string archive_of(const pt2::TracedProgram& traced, const std::vector<torch::Tensor>& inputs,
                       const std::map<std::string, std::string>& extra_files) {
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  const auto write = [&](const std::string& name, const std::string& content) {
    writer.writeRecord(name, content.data(), content.size());
  };
  write("archive_format", "pt2");
  write("archive_version", "0");
  write("byteorder", "little");
  std::vector<pt2::Input> state;
  std::vector<pt2::Input> constants;
  for (const auto& input : traced.program.inputs) {
    if (input.kind == pt2::InputKind::constant) constants.push_back(input);
    if (input.kind == pt2::InputKind::parameter || input.kind == pt2::InputKind::buffer) {
      state.push_back(input);
    }
  }
  write_weights(writer, "data/weights/", "model_weights_config.json", "weight_", state, traced);
  write_weights(writer, "data/constants/", "model_constants_config.json", "tensor_", constants,
                traced);
  write("models/model.json", pt2::write_program(traced.program, TORCH_VERSION));
  const auto sample = pickle_call(inputs);
  write("data/sample_inputs/model.pt", sample);
  for (const auto& [name, content] : extra_files) write("extra/" + name, content);
  writer.writeEndOfFile();
  return bytes;
}

}  // namespace

ExportReport export_pt2(torch::nn::Module& module, const Forward& forward,
                        const std::vector<torch::Tensor>& example_inputs,
                        const std::filesystem::path& path, const ExportOptions& options) {
  ExportScope scope(module, example_inputs, options);
  for (const auto& [name, content] : options.extra_files) check_utf8(content, name);
  const auto traced = pt2::trace_program(module, forward, example_inputs, options);
  scope.restore();
  const auto bytes = archive_of(traced, example_inputs, options.extra_files);
  const auto file =
      read_pt2(ZipArchive(std::string_view(bytes)), {.device = example_inputs.front().device()});
  const auto report = prove(
      module, [&](const auto& inputs) { return file.forward(inputs); }, forward, example_inputs,
      options);
  replace_file(path, bytes);
  return report;
}

}  // namespace attend
