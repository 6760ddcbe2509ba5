#include "attend/export/torchscript_contents.h"

#include "attend/input_error.h"
#include "attend/io/file_kind.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>

namespace attend {
namespace {

namespace jit = torch::jit;
using Reader = caffe2::serialize::PyTorchStreamReader;

constexpr std::string_view kExtra = "extra/";

/// The names and sizes of the files beside the model.
std::map<std::string, int64_t> extra_files_of(const std::string& path) {
  Reader reader(path);
  std::map<std::string, int64_t> extra_files;
  for (const auto& record : reader.getAllRecords()) {
    if (!record.starts_with(kExtra)) continue;
    const auto name = record.substr(kExtra.size());
    extra_files[name] = static_cast<int64_t>(reader.getRecordSize(record));
  }
  return extra_files;
}

std::string signature(const jit::Method& method) {
  std::ostringstream text;
  const auto& schema = method.function().getSchema();
  text << schema.name() << "(";
  const char* separator = "";
  for (const auto& argument : schema.arguments()) {
    if (argument.name() == "self") continue;
    text << separator << argument;
    separator = ", ";
  }
  text << ") -> ";
  separator = "";
  for (const auto& result : schema.returns()) {
    text << separator << *result.type();
    separator = ", ";
  }
  return text.str();
}

TorchScriptContents load(const std::string& path) {
  TorchScriptContents contents{.tensors = {}, .methods = {}, .extra_files = extra_files_of(path)};
  const auto module = jit::load(path, torch::kCPU);
  TensorList tensors;
  for (const auto& item : module.named_parameters()) tensors.add(item.name, item.value, false);
  for (const auto& item : module.named_buffers()) tensors.add(item.name, item.value, true);
  contents.tensors = tensors.tensors();
  for (const auto& method : module.get_methods()) contents.methods.push_back(signature(method));
  return contents;
}

}  // namespace

TorchScriptContents torchscript_contents(const std::filesystem::path& path) {
  const auto kind = file_kind(path);
  if (kind != FileKind::torchscript) {
    throw InputError(fmt::format("{}: expected TorchScript, found a {} file", path.string(),
                                 kind == FileKind::pt2 ? ".pt2" : "safetensors"));
  }
  try {
    return load(path.string());
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw InputError(fmt::format("{}: not a TorchScript file that can be loaded: {}", path.string(),
                                 what.substr(0, what.find('\n'))));
  }
}

}  // namespace attend
