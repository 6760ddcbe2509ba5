#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "io/copy_state.h"
#include "io/dtypes.h"
#include "io/files.h"
#include "io/safetensors_layout.h"
#include "resolved.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace attend {
namespace {

/// A byte of the dtype F4 contains two elements. In LibTorch, the last dimension counts bytes.
constexpr auto kFloat4 = torch::ScalarType::Float4_e2m1fn_x2;

/// Returns the header entry of a tensor. Throws c10::ValueError if the format does not support it.
nlohmann::ordered_json header_entry(const std::string& name, const torch::Tensor& tensor,
                                    uint64_t offset) {
  const auto* dtype = find_dtype(&Dtype::type, tensor.scalar_type());
  TORCH_CHECK_VALUE(dtype != nullptr && !dtype->safetensors.empty(), "'", name, "' has the dtype ",
                    c10::getDtypeNames(tensor.scalar_type()).first,
                    ", which safetensors does not support");
  auto shape = tensor.sizes().vec();
  if (dtype->type == kFloat4) {
    TORCH_CHECK_VALUE(!shape.empty(), "'", name, "' has the dtype ", dtype->safetensors,
                      " and no dimensions, expected at least 1");
    shape.back() *= 2;
  }
  return {{"dtype", std::string(dtype->safetensors)},
          {"shape", shape},
          {"data_offsets", {offset, offset + tensor.nbytes()}}};
}

/// Returns a tensor without values for an entry of a header.
torch::Tensor empty_tensor(const SafetensorsEntry& entry) {
  const auto* dtype = find_dtype(&Dtype::safetensors, entry.dtype);
  auto shape = entry.shape;
  const bool is_float4 = dtype != nullptr && dtype->type == kFloat4;
  if (dtype == nullptr || (is_float4 && (shape.empty() || shape.back() % 2 != 0))) {
    throw InputError(
        fmt::format("'{}' has the dtype {} and the shape ({}), which LibTorch does not support",
                    entry.name, entry.dtype, fmt::join(shape, ", ")));
  }
  if (is_float4) shape.back() /= 2;
  return torch::empty(shape, dtype->type);
}

/// Reads a safetensors file from a stream that supports seeking.
Safetensors load(std::istream& file) {
  auto header = read_safetensors_header(file);
  Safetensors content{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {  // sorted by offset, without gaps
    auto tensor = empty_tensor(entry);
    const auto bytes = static_cast<std::streamsize>(entry.end - entry.begin);
    file.read(static_cast<char*>(tensor.data_ptr()), bytes);
    if (file.gcount() != bytes) {
      throw InputError(fmt::format("'{}': found {} bytes of data, expected {}", entry.name,
                                   file.gcount(), bytes));
    }
    content.tensors.emplace(entry.name, std::move(tensor));
  }
  return content;
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, const Safetensors& content) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<torch::Tensor> data;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const auto why_not = why_not_dense(tensor);
    TORCH_CHECK_VALUE(why_not.empty(), "'", name, "': ", why_not);
    header[name] = header_entry(name, tensor, offset);
    data.push_back(contiguous_on_cpu(tensor));
    offset += data.back().nbytes();
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
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    auto file = open_to_read(path);
    return with_source(path.string(), [&] { return load(file); });
  }
  std::istringstream pipe(read_bytes(path));
  return with_source(path.string(), [&] { return load(pipe); });
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
