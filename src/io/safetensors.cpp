#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "attend/io/safetensors_header.h"
#include "io/copy_state.h"
#include "io/dtypes.h"
#include "io/files.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace attend {
namespace {

std::string dtype_name(torch::ScalarType type) {
  const auto* dtype = find_dtype(&Dtype::type, type);
  TORCH_CHECK_VALUE(dtype != nullptr && !dtype->safetensors.empty(),
                    "safetensors does not support dtype ", type);
  return std::string(dtype->safetensors);
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const Safetensors& content) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<torch::Tensor> data;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    data.push_back(tensor.detach().cpu().contiguous());
    const uint64_t end = offset + data.back().nbytes();
    header[name] = {{"dtype", dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the tensor data to 8 bytes

  replace_file(path, [&](const std::filesystem::path& temporary) {
    errno = 0;
    std::ofstream file(temporary, std::ios::binary);
    const uint64_t length = text.size();
    for (int shift = 0; shift < 64; shift += 8) file.put(static_cast<char>(length >> shift & 0xFF));
    file << text;
    for (const auto& tensor : data) {
      file.write(static_cast<const char*>(tensor.const_data_ptr()),
                 static_cast<std::streamsize>(tensor.nbytes()));
    }
    file.close();
    if (!file) throw_unwritable(path, errno);
  });
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  const auto file = read_bytes(path);
  auto header = with_source(path.string(), [&] { return parse_safetensors_header(file); });
  Safetensors content{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    const auto* dtype = find_dtype(&Dtype::safetensors, entry.dtype);
    if (dtype == nullptr) {
      throw InputError(fmt::format("{}: '{}' has the dtype {}, which cannot be loaded",
                                   path.string(), entry.name, entry.dtype));
    }
    auto tensor = torch::empty(entry.shape, dtype->type);
    const auto bytes = entry.end - entry.begin;
    if (bytes > 0) {
      std::memcpy(tensor.data_ptr(), file.data() + header.data_offset + entry.begin, bytes);
    }
    content.tensors.emplace(entry.name, std::move(tensor));
  }
  return content;
}

std::map<std::string, torch::Tensor> state_dict(ConstModuleRef module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : module->named_parameters()) tensors.emplace(item.key(), item.value());
  for (const auto& item : module->named_buffers()) tensors.emplace(item.key(), item.value());
  return tensors;
}

IncompatibleKeys load_state_dict(ModuleRef module,
                                 const std::map<std::string, torch::Tensor>& tensors,
                                 const LoadStateDictOptions& options) {
  return copy_state(state_dict(module), tensors, "state dict",
                    {.strict = options.strict, .cast = true});
}

}  // namespace attend
