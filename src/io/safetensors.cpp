#include "attend/io/safetensors.h"

#include "attend/input_error.h"
#include "io/copy_state.h"
#include "io/dtypes.h"
#include "io/empty_tensor.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "io/safetensors_layout.h"
#include "resolved.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <fstream>
#include <set>
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

/// Reads the values of a tensor, which begin at the position of `file`, into its memory.
void read_data(std::istream& file, const SafetensorsEntry& entry, const torch::Tensor& tensor) {
  const auto bytes = static_cast<std::streamsize>(entry.end - entry.begin);
  file.read(static_cast<char*>(tensor.data_ptr()), bytes);
  if (file.gcount() != bytes) {
    throw InputError(
        fmt::format("'{}': found {} bytes of data, expected {}", entry.name, file.gcount(), bytes));
  }
}

/// Reads a safetensors file from a stream that supports seeking.
Safetensors load(std::istream& file) {
  auto header = read_safetensors_header(file);
  Safetensors content{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {  // sorted by offset, without gaps
    const auto tensor = content.tensors.emplace(entry.name, empty_tensor(entry)).first->second;
    read_data(file, entry, tensor);
  }
  return content;
}

/// Returns the file of each tensor, as an index says.
std::map<std::string, std::string> files_of_index(const std::filesystem::path& path) {
  constexpr std::size_t kMaxIndexBytes = 100'000'000;
  const auto json = parse_json(read_bytes(path, {.bytes = kMaxIndexBytes}));
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) {
    throw InputError("expected an object with the key weight_map, an object");
  }
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_file_name(file.get<std::string>())) {
      throw InputError(fmt::format("'{}' is in {}, expected the name of a file in the same folder",
                                   name, file.dump()));
    }
    files.emplace(name, file.get<std::string>());
  }
  return files;
}

}  // namespace

torch::Tensor empty_tensor(const SafetensorsEntry& entry, torch::Device device) {
  const auto* dtype = find_dtype(&Dtype::safetensors, entry.dtype);
  auto shape = entry.shape;
  const bool is_float4 = dtype != nullptr && dtype->type == kFloat4;
  if (dtype == nullptr || (is_float4 && (shape.empty() || shape.back() % 2 != 0))) {
    throw InputError(
        fmt::format("'{}' has the dtype {} and the shape ({}), which LibTorch does not support",
                    entry.name, entry.dtype, fmt::join(shape, ", ")));
  }
  if (is_float4) shape.back() /= 2;
  return torch::empty(shape, torch::dtype(dtype->type).device(device));
}

void save_safetensors(const std::filesystem::path& path, const Safetensors& content) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const auto why_not = why_not_dense(tensor);
    TORCH_CHECK_VALUE(why_not.empty(), "'", name, "': ", why_not);
    header[name] = header_entry(name, tensor, offset);
    offset += tensor.nbytes();
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the tensor data to 8 bytes

  replace_file(path, [&](const std::filesystem::path& temporary) {
    errno = 0;
    std::ofstream file(temporary, std::ios::binary);
    const uint64_t length = text.size();
    for (int shift = 0; shift < 64; shift += 8) file.put(static_cast<char>(length >> shift & 0xFF));
    file << text;
    for (const auto& [name, strided] : content.tensors) {
      const auto tensor = contiguous_on_cpu(strided);  // copies one tensor at a time
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

SafetensorsFiles::SafetensorsFiles(const std::filesystem::path& path) {
  if (path.extension() != ".json") {
    add(path);
    return;
  }
  with_source(path.string(), [&] {
    const auto files = files_of_index(path);
    const auto folder = std::filesystem::absolute(path).parent_path();
    std::set<std::string> names;
    for (const auto& [tensor, file] : files) names.insert(file);
    for (const auto& name : names) add(file_in(folder, name));
    for (const auto& [tensor, file] : files) {
      if (entries_.count(tensor) == 0 || places_.at(tensor).file != folder / file)
        throw InputError(fmt::format("'{}' is not in {}", tensor, file));
    }
    for (const auto& [tensor, place] : places_) {
      if (files.count(tensor) == 0) {
        throw InputError(
            fmt::format("'{}' of {} is not in the index", tensor, place.file.filename().string()));
      }
    }
  });
}

void SafetensorsFiles::add(const std::filesystem::path& file) {
  const auto header = read_safetensors_header(file);
  for (const auto& entry : header.entries) {
    if (!entries_.emplace(entry.name, entry).second) {
      throw InputError(fmt::format("'{}' is in {} and {}", entry.name, file_of(entry.name).string(),
                                   file.string()));
    }
    places_.emplace(entry.name, Place{file, header.data_offset + entry.begin});
  }
}

void SafetensorsFiles::read_values(const std::string& name, const torch::Tensor& tensor) const {
  const auto& [path, offset] = places_.at(name);
  auto file = open_to_read(path);
  file.seekg(static_cast<std::streamoff>(offset));
  with_source(path.string(), [&] { read_data(file, entries_.at(name), tensor); });
}

torch::Tensor SafetensorsFiles::read(const std::string& name) const {
  auto tensor =
      with_source(file_of(name).string(), [&] { return empty_tensor(entries_.at(name)); });
  read_values(name, tensor);
  return tensor;
}

void SafetensorsFiles::read_into(const std::string& name, const torch::Tensor& destination) const {
  const auto* dtype = find_dtype(&Dtype::safetensors, entries_.at(name).dtype);
  const bool is_direct = dtype != nullptr && dtype->type == destination.scalar_type() &&
                         destination.is_cpu() && destination.is_contiguous() &&
                         destination.sizes() == entries_.at(name).shape;
  if (is_direct) {
    read_values(name, destination.detach());
  } else {
    destination.copy_(read(name));
  }
}

const std::filesystem::path& SafetensorsFiles::file_of(const std::string& name) const {
  return places_.at(name).file;
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
