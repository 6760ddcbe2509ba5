#include "pt2/read_archive.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/tensor_bounds.h"
#include "program/schema_enums.h"
#include "pt2/archive_layout.h"
#include "pt2/parse_program.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace attend::pt2 {
namespace {

/// Returns the name of the program to read: `wanted` or, if it is empty, kDefaultModel or the only
/// program. Throws InputError if there is no such program.
std::string find_model(const ZipArchive& archive, const std::string& wanted) {
  constexpr std::string_view kEnd = ".json";
  std::vector<std::string> models;
  for (const auto& entry : archive.names()) {
    if (!entry.starts_with(kModels) || !entry.ends_with(kEnd)) continue;
    models.push_back(entry.substr(kModels.size(), entry.size() - kModels.size() - kEnd.size()));
  }
  if (wanted.empty() && models.size() == 1) return models.front();
  const auto name = wanted.empty() ? std::string(kDefaultModel) : wanted;
  if (std::ranges::find(models, name) == models.end()) {
    throw InputError(fmt::format(
        "expected a program '{}' in {}, found {}", name, kModels,
        models.empty() ? "none" : printable(fmt::format("{}", fmt::join(models, ", ")))));
  }
  return name;
}

/// A message shows the content of an entry only if the entry has at most this many bytes.
constexpr uint64_t kMaxShown = 60;

void expect(const ZipArchive& archive, const std::string& entry, const std::string& content) {
  const auto size = archive.size(entry);
  const auto found = size > kMaxShown ? std::string() : archive.read(entry);
  if (found == content) return;
  const auto shown =
      size > kMaxShown ? fmt::format("{} bytes", size) : fmt::format("'{}'", printable(found));
  throw InputError(fmt::format("{}: expected '{}', found {}", entry, content, shown));
}

using namespace program;

std::vector<int64_t> static_sizes(const std::vector<Size>& sizes) {
  std::vector<int64_t> numbers;
  for (const auto& size : sizes) {
    if (!size.expression.empty()) {
      throw InputError(
          fmt::format("expected an integer as size, stride or storage offset of a weight, found {}",
                      text_of(size)));
    }
    numbers.push_back(size.value);
  }
  return numbers;
}

/// Returns a weight as a view of `bytes`. Throws InputError if an element of the weight is outside
/// of `bytes`.
torch::Tensor view_of(const TensorMeta& meta, const torch::Tensor& bytes) {
  const auto sizes = static_sizes(meta.sizes);
  const auto strides = static_sizes(meta.strides);
  const auto offset = static_sizes({meta.storage_offset}).front();
  const auto dtype = dtype_of(meta.dtype);
  layout_of(meta.layout);
  const auto element_size = static_cast<int64_t>(c10::elementSize(dtype));
  const auto available = bytes.numel() / element_size;
  const auto num_elements = checked_num_elements(sizes, strides, offset, available);
  try {
    if (num_elements == 0)
      return torch::empty_strided(sizes, strides, bytes.options().dtype(dtype));
    return bytes.narrow(0, 0, available * element_size)
        .view(dtype)
        .as_strided(sizes, strides, offset);
  } catch (const c10::Error& error) {  // thrown for dtypes that do not support the view
    throw InputError(error.what_without_backtrace());
  }
}

/// Reads the weights that the config file of `layout` for the program `model` lists, and adds them
/// to `weights` by name. Does nothing if the archive does not contain the config file. Weights
/// whose bytes are in the same archive entry share memory. Throws InputError if an element of a
/// weight is outside of the entry that contains the weight's bytes.
void read_weights(const ZipArchive& archive, const std::string& model, const WeightsLayout& layout,
                  torch::Device device, std::map<std::string, torch::Tensor>& weights) {
  const std::string folder = layout.folder;
  const auto entry = folder + model + layout.config;
  if (!archive.has(entry)) return;
  const auto listed = with_source(entry, [&] { return parse_weights(archive.read(entry)); });
  std::map<std::string, torch::Tensor> bytes;
  for (const auto& [name, weight] : listed) {
    with_source(fmt::format("{}: {}", entry, name), [&, &name = name, &weight = weight] {
      auto& content = bytes[weight.entry];
      if (!content.defined()) {
        const auto file = folder + weight.entry;
        content = torch::empty({static_cast<int64_t>(archive.size(file))}, torch::kByte);
        archive.read(file, content.mutable_data_ptr());
        content = content.to(device);
      }
      if (!weights.emplace(name, view_of(weight.meta, content)).second) {
        throw InputError("a weight of this name is also listed in another config file");
      }
    });
  }
}

}  // namespace

Archive read_archive(const ZipArchive& zip, torch::Device device, const std::string& model) {
  for (const auto& [entry, content] : kFormatEntries) expect(zip, entry, content);
  const auto name = find_model(zip, model);
  Archive archive{.model = fmt::format("{}{}.json", kModels, name), .program = {}, .weights = {}};
  archive.program =
      with_source(archive.model, [&] { return parse_program(zip.read(archive.model)); });
  for (const auto& layout : {kWeights, kConstants}) {
    read_weights(zip, name, layout, device, archive.weights);
  }
  return archive;
}

}  // namespace attend::pt2
