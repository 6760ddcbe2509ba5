#include "export/pt2/write_archive.h"

#include "export/nested.h"
#include "export/pt2/write_program.h"
#include "io/files.h"
#include "pt2/archive_layout.h"
#include "resolved.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>
#include <torch/version.h>

#include <functional>
#include <ostream>
#include <sstream>

namespace attend::pt2 {
namespace {

using namespace program;

using Writer = caffe2::serialize::PyTorchStreamWriter;

/// Writes a zip archive. The function `write` writes the entries of the archive.
void write_zip(std::ostream& file, const std::function<void(Writer&)>& write) {
  Writer writer(archive_writer(file));
  write(writer);
  writer.writeEndOfFile();
}

/// Writes the whole storage of a tensor, which may be on any device.
void write_storage(Writer& writer, const std::string& entry, const torch::Tensor& tensor) {
  const auto on_cpu = torch::jit::getWriteableTensorData(tensor);
  writer.writeRecord(entry, on_cpu.data(), on_cpu.sizeInBytes());
}

/// Writes the weights of programs to one folder. Weights with the same storage share one archive
/// entry, also those of different programs.
class WeightsWriter {
 public:
  WeightsWriter(Writer& writer, const WeightsLayout& layout, const char* prefix)
      : writer_(writer), layout_(layout), prefix_(prefix) {}

  /// Writes the weights to which `inputs` refer, and the config file that lists these weights.
  void write(const std::string& model, const std::vector<Input>& inputs,
             const TracedProgram& traced) {
    const std::string folder = layout_.folder;
    std::map<std::string, Weight> weights;
    for (const auto& input : inputs) {
      const auto& tensor = traced.weights.at(input.target);
      auto& entry = entries_[tensor.storage().unsafeGetStorageImpl()];
      if (entry.empty()) {
        entry = fmt::format("{}{}", prefix_, entries_.size() - 1);
        write_storage(writer_, folder + entry, tensor);
      }
      auto meta = traced.program.tensors.at(input.name);
      meta.storage_offset = {tensor.storage_offset(), {}};
      weights.emplace(
          input.target,
          Weight{.entry = entry, .meta = meta, .is_parameter = input.kind == InputKind::parameter});
    }
    const auto json = weights_json(weights);
    writer_.writeRecord(folder + model + layout_.config, json.data(), json.size());
  }

 private:
  Writer& writer_;
  WeightsLayout layout_;
  const char* prefix_;
  std::map<const void*, std::string> entries_;  // by storage
};

/// Returns the bytes of a file for torch.load. The file contains the tuple (args, kwargs): the
/// example inputs of `method` as args, and empty kwargs.
std::string pickle_call(const TracedMethod& method) {
  std::string pickle;
  // tag_aggregates=false omits the type tags of dictionaries: torch.load(weights_only=True) rejects
  // type tags.
  torch::jit::Pickler pickler(
      [&](const char* data, std::size_t size) { pickle.append(data, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  std::vector<torch::Tensor> tensors;
  for (const auto& input : method.example_inputs) tensors.push_back(resolved(input));
  // A list of tensors would be pickled as a call of a function that torch.load(weights_only=True)
  // rejects; a list of any values is pickled as a list.
  pickler.pushIValue(c10::ivalue::Tuple::create(
      {c10::ivalue::Tuple::create(nest(method.arguments, tensors, /*as_any=*/true)),
       c10::Dict<std::string, torch::Tensor>()}));
  pickler.stop();
  std::ostringstream bytes;
  write_zip(bytes, [&](Writer& writer) {
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    std::size_t next = 0;
    for (const auto& tensor : pickler.tensorData()) {
      write_storage(writer, fmt::format("data/{}", next++), tensor);
    }
  });
  return bytes.str();
}

}  // namespace

void write_archive(std::ostream& file, const std::map<std::string, TracedProgram>& programs,
                   const std::map<std::string, std::string>& extra_files) {
  write_zip(file, [&](Writer& writer) {
    const auto write = [&](const std::string& name, const std::string& content) {
      writer.writeRecord(name, content.data(), content.size());
    };
    for (const auto& [entry, content] : kFormatEntries) write(entry, content);
    WeightsWriter weights(writer, kWeights, "weight_");
    WeightsWriter constants(writer, kConstants, "tensor_");
    for (const auto& [name, traced] : programs) {
      std::vector<Input> state;
      std::vector<Input> lifted;
      for (const auto& input : traced.program.inputs) {
        if (input.kind == InputKind::user) continue;
        (input.kind == InputKind::constant ? lifted : state).push_back(input);
      }
      weights.write(name, state, traced);
      constants.write(name, lifted, traced);
      write(fmt::format("{}{}.json", kModels, name), program_json(traced, TORCH_VERSION));
      write(fmt::format("{}{}.pt", kSampleInputs, name), pickle_call(traced.trace.method));
    }
    for (const auto& [name, content] : extra_files) {
      write(fmt::format("{}{}", kExtraFiles, name), content);
    }
  });
}

}  // namespace attend::pt2
