#include "attend/export/torchscript_contents.h"

#include "attend/input_error.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>

namespace attend {
namespace {

namespace jit = torch::jit;
using Reader = caffe2::serialize::PyTorchStreamReader;

constexpr std::string_view kExtra = "extra/";

/// What an archive of PyTorch's is if it is not TorchScript; empty if it is.
std::string other_kind(const std::vector<std::string>& records) {
  const auto has = [&](const auto& matches) {
    return std::any_of(records.begin(), records.end(), matches);
  };
  if (has([](const std::string& record) { return record.starts_with("code/"); })) return {};
  if (has([](const std::string& record) { return record.starts_with("models/"); })) {
    return "an exported program of torch.export (.pt2)";
  }
  if (has([](const std::string& record) { return record == "data.pkl"; })) {
    return "a Python pickle, as torch.save writes it; only Python can read it";
  }
  return "another zip archive";
}

/// The names and sizes of the files beside the model. Throws unless it is TorchScript.
std::map<std::string, int64_t> read_archive(const std::string& path) {
  Reader reader(path);
  const auto records = reader.getAllRecords();
  const auto other = other_kind(records);
  if (!other.empty()) {
    throw InputError(fmt::format("{}: expected TorchScript, found {}", path, other));
  }
  std::map<std::string, int64_t> extra_files;
  for (const auto& record : records) {
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
  TorchScriptContents contents{.tensors = {}, .methods = {}, .extra_files = read_archive(path)};
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
  try {
    return load(path.string());
  } catch (const InputError&) {
    throw;
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw InputError(fmt::format("{}: not a TorchScript file that can be loaded: {}", path.string(),
                                 what.substr(0, what.find('\n'))));
  }
}

}  // namespace attend
