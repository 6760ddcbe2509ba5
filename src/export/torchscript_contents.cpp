#include "attend/export/torchscript_contents.h"

#include "attend/input_error.h"
#include "attend/io/file_kind.h"
#include "export/pickle.h"
#include "io/tensor_bounds.h"
#include "io/zip_archive.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace attend {
namespace {

using Index = Pickle::Index;
using Kind = Pickle::Kind;

/// A class in the archive's source code: the names of its tensors, and the signatures of its
/// methods.
struct Class {
  std::set<std::string, std::less<>> parameters;
  std::set<std::string, std::less<>> buffers;
  std::vector<std::string> methods;
};

/// Returns the strings in the source code of a list such as ["weight", "bias", ].
std::set<std::string, std::less<>> strings_in(std::string_view list) {
  std::set<std::string, std::less<>> strings;
  for (std::size_t begin = 0; (begin = list.find('"', begin)) != std::string_view::npos;) {
    const auto end = std::min(list.find('"', begin + 1), list.size());
    strings.emplace(list.substr(begin + 1, end - begin - 1));
    begin = std::min(end + 1, list.size());
  }
  return strings;
}

/// Returns the signature of a method without `self` and line breaks. For example, returns
/// "forward(tokens: Tensor) -> Tensor" for "forward(self: __torch__.Model,\n tokens: Tensor) ->
/// Tensor".
std::string signature(std::string_view definition) {
  std::string text;
  for (const char c : definition) {
    if (c != '\n' && c != ' ') {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  const auto begin = text.find('(');
  if (begin == std::string::npos) return text;
  const auto end = text.find_first_of(",)", begin);  // end of the first argument, `self`
  if (end == std::string::npos) return text;
  return text.erase(begin + 1, text[end] == ',' ? end - begin + 1 : end - begin - 1);
}

/// Returns the module classes that a source file defines, by class name.
std::map<std::string, Class> parse_classes(std::string_view source) {
  constexpr std::string_view kClass = "class ";
  constexpr std::string_view kModule = "(Module):";
  constexpr std::string_view kParameters = "  __parameters__ = ";
  constexpr std::string_view kBuffers = "  __buffers__ = ";
  constexpr std::string_view kMethod = "  def ";
  std::map<std::string, Class> classes;
  Class* current = nullptr;  // nullptr before the first class and in classes that are not modules
  while (!source.empty()) {
    const auto line = source.substr(0, source.find('\n'));
    const auto after = [&](std::string_view start) { return line.substr(start.size()); };
    if (line.starts_with(kClass)) {
      const auto name = after(kClass).substr(0, after(kClass).find('('));
      current = line.ends_with(kModule) ? &classes[std::string(name)] : nullptr;
    } else if (current != nullptr && line.starts_with(kParameters)) {
      current->parameters = strings_in(after(kParameters));
    } else if (current != nullptr && line.starts_with(kBuffers)) {
      current->buffers = strings_in(after(kBuffers));
    } else if (current != nullptr && line.starts_with(kMethod)) {
      const auto definition = source.substr(kMethod.size());
      current->methods.push_back(signature(definition.substr(0, definition.find(":\n"))));
    }
    source.remove_prefix(std::min(line.size() + 1, source.size()));
  }
  return classes;
}

std::optional<c10::ScalarType> dtype_of(std::string_view storage) {
  for (int8_t i = 0; i < static_cast<int8_t>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (storage == fmt::format("torch\n{}Storage", c10::toString(type))) return type;
  }
  return std::nullopt;
}

/// Reads the module in data.pkl. Runs no code, unlike torch::jit::load.
class ModuleReader {
 public:
  explicit ModuleReader(const ZipArchive& archive)
      : archive_(archive), bytes_(archive.read("data.pkl")), pickle_(bytes_) {}

  TorchScriptContents read() {
    const auto& root = pickle_.root();
    const auto* type = root.kind == Kind::object ? class_of(root) : nullptr;
    if (type == nullptr) throw InputError("data.pkl: expected a module");
    visit(root, "");
    auto tensors = std::move(parameters_);
    tensors.insert(tensors.end(), buffers_.begin(), buffers_.end());
    std::map<std::pair<std::string, std::vector<int64_t>>, std::string> names;
    for (auto& tensor : tensors) {
      auto& info = tensor.info;
      if (info.elements == 0) continue;
      const auto [first, is_new] = names.try_emplace({tensor.place, info.shape}, info.name);
      if (!is_new) info.alias_of = first->second;
    }
    TorchScriptContents contents{
        .tensors = {}, .methods = type->methods, .extra_files = archive_.sizes_in("extra/")};
    for (auto& tensor : tensors) contents.tensors.push_back(std::move(tensor.info));
    return contents;
  }

 private:
  struct Tensor {
    TensorInfo info;
    std::string place;  // archive entry of the storage, and offset
  };

  /// Returns the class of an object, or nullptr if the object is not a module.
  const Class* class_of(const Pickle::Value& object) {
    const auto& global = pickle_[object.items[0]];
    if (global.kind != Kind::global) throw InputError("data.pkl: expected a class");
    const auto space = global.text.find('\n');
    auto file = "code/" + std::string(global.text.substr(0, space)) + ".py";
    std::replace(file.begin(), file.end() - 3, '.', '/');
    const auto [added, is_new] = classes_.try_emplace(file);
    auto& classes = added->second;
    if (is_new && archive_.has(file)) {
      const auto source = archive_.decompress(file, code_bytes_);
      code_bytes_ -= source.size();
      classes = parse_classes(source);
    }
    const auto found = classes.find(std::string(global.text.substr(space + 1)));
    return found == classes.end() ? nullptr : &found->second;
  }

  void visit(const Pickle::Value& module, const std::string& prefix, int depth = 0) {
    constexpr int kMaxDepth = 200;
    if (depth > kMaxDepth) {
      throw InputError(
          fmt::format("data.pkl: modules are nested deeper than {} levels", kMaxDepth));
    }
    // Limits the time for hostile files: if the modules of each level contain the same submodule
    // several times, the number of paths grows exponentially with the depth.
    if (++visited_ > bytes_.size()) {
      throw InputError(
          "data.pkl: the number of paths to modules exceeds the number of bytes of the file");
    }
    const auto& type = *class_of(module);
    const auto& state = pickle_[module.items[1]];
    if (state.kind != Kind::dict) return;  // written by the module's __getstate__
    for (std::size_t i = 0; i < state.items.size(); i += 2) {
      const auto& key = pickle_[state.items[i]];
      const auto& value = pickle_[state.items[i + 1]];
      if (key.kind != Kind::text) throw InputError("data.pkl: expected the name of an attribute");
      const auto name = prefix + std::string(key.text);
      if (value.kind == Kind::object && class_of(value) != nullptr) {
        visit(value, name + ".", depth + 1);
      } else if (value.kind == Kind::call) {
        if (type.parameters.contains(key.text)) parameters_.push_back(tensor(value, name, false));
        if (type.buffers.contains(key.text)) buffers_.push_back(tensor(value, name, true));
      }
    }
  }

  /// Returns the integers of a tuple.
  std::vector<int64_t> integers(const Pickle::Value& tuple) const {
    std::vector<int64_t> numbers;
    for (const auto item : tuple.items) numbers.push_back(value(item, Kind::integer).integer);
    return numbers;
  }

  const Pickle::Value& value(Index index, Kind kind) const {
    const auto& value = pickle_[index];
    if (value.kind != kind) throw InputError("a value has the wrong type");
    return value;
  }

  /// Returns the description of the tensor that a call of _rebuild_tensor_v2(storage, offset,
  /// sizes, strides, requires_grad, ...) would create. The argument `storage` is the tuple
  /// ('storage', type, name of the archive entry, device, number of elements).
  Tensor tensor(const Pickle::Value& call, const std::string& name, bool is_buffer) const {
    return with_source(fmt::format("data.pkl: {}", name), [&] {
      const auto& arguments = value(call.items[1], Kind::tuple).items;
      if (pickle_[call.items[0]].text != "torch._utils\n_rebuild_tensor_v2" ||
          arguments.size() < 5) {
        throw InputError("expected a dense tensor");
      }
      const auto& storage = value(value(arguments[0], Kind::storage).items[0], Kind::tuple).items;
      if (storage.size() < 3) throw InputError("expected a storage");
      const auto entry = "data/" + std::string(value(storage[2], Kind::text).text);
      const auto dtype = dtype_of(value(storage[1], Kind::global).text);
      if (!dtype) throw InputError("unknown dtype");
      const auto offset = value(arguments[1], Kind::integer).integer;
      const auto shape = integers(value(arguments[2], Kind::tuple));
      const auto strides = integers(value(arguments[3], Kind::tuple));
      const auto element_size = static_cast<int64_t>(c10::elementSize(*dtype));
      // LibTorch may omit the entry of an empty storage.
      const auto bytes = archive_.has(entry) ? archive_.size(entry) : 0;
      const auto available = static_cast<int64_t>(bytes) / element_size;
      const auto elements = checked_num_elements(shape, strides, offset, available);
      const bool requires_grad = value(arguments[4], Kind::boolean).integer != 0;
      const auto role = is_buffer       ? TensorRole::buffer
                        : requires_grad ? TensorRole::parameter
                                        : TensorRole::frozen;
      return Tensor{.info = {.name = name,
                             .shape = shape,
                             .dtype = std::string(c10::getDtypeNames(*dtype).first),
                             .elements = elements,
                             .bytes = elements * element_size,
                             .role = role},
                    .place = fmt::format("{}:{}", entry, offset)};
    });
  }

  const ZipArchive& archive_;
  std::string bytes_;
  Pickle pickle_;
  std::map<std::string, std::map<std::string, Class>> classes_;  // by file and name
  // Number of bytes of source code that may still be decompressed. The number is limited, since the
  // source code in a small archive may decompress to gigabytes.
  uint64_t code_bytes_ = 6 * archive_.bytes() + (uint64_t{1} << 20);
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
  std::size_t visited_ = 0;
};

}  // namespace

TorchScriptContents torchscript_contents(const std::filesystem::path& path) {
  const auto kind = file_kind(path);
  if (kind != FileKind::torchscript) {
    throw InputError(fmt::format("{}: expected a TorchScript file, found a {} file", path.string(),
                                 kind == FileKind::pt2    ? ".pt2"
                                 : kind == FileKind::onnx ? "ONNX"
                                                          : "safetensors"));
  }
  return with_source(path.string(), [&] {
    const ZipArchive archive(path);
    return ModuleReader(archive).read();
  });
}

}  // namespace attend
