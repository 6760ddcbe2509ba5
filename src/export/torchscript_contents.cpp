#include "attend/export/torchscript_contents.h"

#include "attend/input_error.h"
#include "attend/io/file_kind.h"
#include "io/zip_archive.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <sstream>

namespace attend {
namespace {

namespace jit = torch::jit;

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

TorchScriptContents load(const std::filesystem::path& path) {
  TorchScriptContents contents{
      .tensors = {}, .methods = {}, .extra_files = ZipArchive(path).sizes_in("extra/")};
  const auto module = jit::load(path.string(), torch::kCPU);
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
    throw InputError(fmt::format("{}: expected a TorchScript file, found a {} file", path.string(),
                                 kind == FileKind::pt2 ? ".pt2" : "safetensors"));
  }
  return with_source(path.string(), [&] {
    try {
      return load(path);
    } catch (const c10::Error& error) {
      const std::string what = error.what_without_backtrace();
      throw InputError(
          fmt::format("cannot be loaded as TorchScript: {}", what.substr(0, what.find('\n'))));
    }
  });
}

}  // namespace attend
