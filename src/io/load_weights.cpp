#include "attend/io/load_weights.h"

#include "attend/input_error.h"
#include "io/copy_state.h"
#include "io/empty_tensor.h"
#include "io/files.h"
#include "io/python_command.h"
#include "io/safetensors_layout.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <vector>

namespace attend {
namespace {

using Path = std::filesystem::path;

/// Throws InputError if a file was written by torch.save.
void check_is_no_pickle(const Path& path) {
  const auto start = read_start(path, kLengthBytes + 1);
  // The length of a safetensors header may begin with the bytes of a pickle.
  const bool is_pickle = start.starts_with("PK\x03\x04") || start.starts_with("\x80\x02");
  if (!is_pickle || begins_as_safetensors(start)) return;
  throw InputError(fmt::format(
      "{}: is a file of torch.save, expected safetensors; if it contains a state dict, convert it "
      "with: {}",
      path.string(),
      python_command(
          "import sys, torch; from safetensors.torch import save_file; "
          "save_file({k: v.contiguous().clone() for k, v in torch.load(open(sys.argv[1], "
          "'rb'), map_location='cpu', weights_only=True).items()}, sys.argv[2])",
          {path.string(), Path(path).replace_extension(".safetensors").string()})));
}

/// Returns a file or index, given `path` of `load_weights`.
Path file_at(const Path& path) {
  if (std::filesystem::is_directory(path)) return weights_file(path);
  check_is_no_pickle(path);
  return path;
}

/// Returns shape and dtype of a tensor in LibTorch.
StateEntry state_entry(const SafetensorsEntry& entry) {
  try {
    const auto tensor = empty_tensor(entry, torch::kMeta);
    return {.shape = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
  } catch (const InputError& error) {  // LibTorch lacks the dtype
    return {.problem = error.what()};
  }
}

/// Throws InputError unless all tensors are equal.
void check_equal(const SafetensorsFiles& files, const std::vector<std::string>& names) {
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto& first = files.entries().at(names[0]);
    const auto& other = files.entries().at(names[i]);
    const auto is_equal = [&] {
      const auto a = files.read(names[0]);
      const auto b = files.read(names[i]);
      return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
    };
    if (first.dtype != other.dtype || first.shape != other.shape || !is_equal()) {
      throw InputError(
          fmt::format("'{}' and '{}' differ, but are one tensor of the model", names[0], names[i]));
    }
  }
}

}  // namespace

Path weights_file(const Path& folder) {
  const auto single = file_in(folder, "model.safetensors");
  const auto index = file_in(folder, "model.safetensors.index.json");
  if (std::filesystem::exists(single)) {
    check_is_no_pickle(single);
    return single;
  }
  if (std::filesystem::exists(index)) return index;
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    throw InputError(fmt::format(
        "{}: is a pickle file, which can run any program when it is loaded, expected "
        "model.safetensors; write it with: {}",
        (folder / name).string(),
        python_command(
            "import glob, sys, torch; from safetensors.torch import save_file; "
            "save_file({name: tensor.contiguous().clone() for file in "
            "glob.glob(glob.escape(sys.argv[1]) + '/pytorch_model*.bin') for name, "
            "tensor in torch.load(file, map_location='cpu', weights_only=True).items()}, "
            "sys.argv[1] + '/model.safetensors')",
            {folder.string()})));
  }
  throw InputError(
      fmt::format("{}: found no weights, expected model.safetensors or "
                  "model.safetensors.index.json",
                  folder.string()));
}

IncompatibleKeys load_weights(ModuleRef module, const Path& path,
                              const LoadWeightsOptions& options) {
  TORCH_CHECK_VALUE(!options.dtype || torch::isFloatingType(*options.dtype),
                    "dtype must be a floating-point dtype, found ",
                    c10::getDtypeNames(options.dtype.value_or(torch::kFloat)).first);
  const SafetensorsFiles files(file_at(path));
  std::map<std::string, StateEntry> entries;
  std::map<std::string, std::vector<std::string>> names_in_files;
  for (const auto& [name, entry] : files.entries()) {
    const auto renamed = options.rename ? options.rename(name) : name;
    if (renamed.empty()) continue;
    entries.emplace(renamed, state_entry(entry));
    names_in_files[renamed].push_back(name);
  }

  auto destination = state_dict(*module);
  std::map<torch::TensorImpl*, std::vector<std::string>> sources;
  const auto keys = with_source(path.string(), [&] {
    auto found =
        check_state(destination, entries, options.rename ? "file, after `rename`," : "file",
                    {.strict = options.strict,
                     .cast = true,
                     .dtype = options.dtype,
                     .how_to_rename = " with the option `rename`"});
    for (const auto& [name, tensor] : destination) {
      auto& all = sources[tensor.unsafeGetTensorImpl()];
      const auto& of_name = names_in_files[name];
      all.insert(all.end(), of_name.begin(), of_name.end());
    }
    for (const auto& item : sources) check_equal(files, item.second);
    return found;
  });

  const torch::NoGradGuard no_grad;
  for (auto& [name, tensor] : destination) {
    if (options.dtype && tensor.is_floating_point()) tensor.set_data(tensor.to(*options.dtype));
    auto& names = sources.at(tensor.unsafeGetTensorImpl());
    if (names.empty()) continue;
    files.read_into(names.front(), tensor);
    names.clear();  // another name of the tensor needs no second copy
  }
  return keys;
}

}  // namespace attend
